/*
 * observe/metrics.h - what the process counted, for machines.
 *
 * One object says what weir is doing: the answer to "status" on the control socket
 * (its members are listed at control.h). Everything else is drawn from that object:
 * the status page, weirctl, and the text below. So a page and a program on another
 * release still agree on whatever both know. Pure: no socket, no clock.
 */
#ifndef WEIR_OBSERVE_METRICS_H
#define WEIR_OBSERVE_METRICS_H

#include <jansson.h>

#include "base/buf.h"
#include "base/counters.h"

/* {"connections_open":3,"requests":120,...}: each counter and gauge by its name. The
 * caller owns the reference; NULL when memory is out. */
json_t *metrics_counters(const int64_t values[COUNTERS_N]);

/* Appends a status object in the Prometheus text format 0.0.4: weir_requests_total and
 * its kind for counters, weir_connections_open and its kind for gauges, the process,
 * and one sample a worker. What the object does not hold is left out. */
void metrics_prometheus(const json_t *status, struct buf *out);

/* The Content-Type of that text. */
#define METRICS_PROMETHEUS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Bytes as a JSON string whatever they hold: when they are not UTF-8, each byte that is
 * not ASCII becomes '?'. NULL when memory is out. */
json_t *metrics_string(struct view bytes);

/* Members of an object, with a default for what is missing or of another kind. member
 * may be NULL. Borrowed: as long as the object. */
int64_t metrics_int(const json_t *object, const char *member, int64_t otherwise);
const char *metrics_str(const json_t *object, const char *member, const char *otherwise);

#endif
