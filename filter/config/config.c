#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/options.h"
#include "config/pattern.h"
#include "config/rule_read.h"
#include "config/units.h"

struct config *config_ref(struct config *c)
{
	if (c)
		atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
	return c;
}

static void config_free(struct config *c)
{
	if (c->parting)
		c->parting(c);
	for (size_t i = 0; i < c->n_endpoints; i++) {
		free(c->endpoints[i].name);
		tiers_release(&c->endpoints[i].tiers);
	}
	for (size_t i = 0; i < c->n_backends; i++) {
		free(c->backends[i].name);
		options_release(IN_BACKEND, &c->backends[i]);
	}
	for (size_t i = 0; i < c->n_files; i++)
		free(c->files[i]);
	for (size_t i = 0; i < c->n_endpoint_patterns; i++)
		free(c->endpoint_patterns[i].text);
	tiers_release(&c->site);
	pattern_index_free(c->patterns);
	options_release(IN_CONFIG, c);
	free(c->reply.template_text);
	free(c->store.password);
	free(c->endpoints);
	free(c->endpoint_patterns);
	free(c->backends);
	free(c->files);
	free(c->looks);
	free(c->lines);
	free(c->file);
	free(c);
}

void config_unref(struct config *c)
{
	if (c && atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) == 1)
		config_free(c);
}

unsigned config_line(const struct config *c, const char *section, const char *name)
{
	const struct option *o = option_find(view_str(section), view_str(name));

	return o ? c->lines[o - options] : 0;
}

int config_spool_fault(const struct config *c)
{
	struct stat st;

	if (c->server.spool_memory >= c->server.body_limit)
		return 0;
	if (stat(c->server.spool_dir, &st) < 0)
		return errno;
	if (!S_ISDIR(st.st_mode))
		return ENOTDIR;
	return faccessat(AT_FDCWD, c->server.spool_dir, W_OK | X_OK, AT_EACCESS) < 0 ? errno
										     : 0;
}

/* One line for each rule, so that plans stand below one another. */
static void put_tiers(const struct tiers *tiers, struct buf *out)
{
	for (size_t i = 0; i < tiers->n; i++) {
		const struct tier *t = &tiers->list[i];

		for (size_t j = 0; j < t->n_rules; j++) {
			const struct rule *r = &t->rules[j];

			buf_addf(out, "    %-24s ", j ? "" : t->label);
			if (r->plan)
				buf_addf(out, "plan %s: ", r->plan);
			rule_put_limit(r, out);
			buf_add_byte(out, '\n');
		}
	}
}

static void put_backend(const struct backend *b, struct buf *out)
{
	buf_addf(out, "backend %s\n", b->name);
	for (size_t i = 0; i < b->n_addrs; i++)
		buf_addf(out, "    fastcgi %s\n", b->addrs[i].text);
	if (b->kind == BACKEND_CGI)
		buf_addf(out, "    cgi %s%s%s\n", b->root, b->prefix[0] ? " at " : "",
			b->prefix);
}

static void put_store(const struct config *c, struct buf *out)
{
	static const char *const policies[] = {
		[ON_ERROR_LOCAL] = "count in each process",
		[ON_ERROR_OPEN] = "let everybody pass",
		[ON_ERROR_CLOSED] = "refuse everybody",
	};

	if (c->store.type == STORE_MEMORY) {
		buf_add_str(out, "store memory, at most ");
		unit_put_size(out, c->store.memory);
		buf_add_byte(out, '\n');
		return;
	}
	buf_add_str(out, "store redis at ");
	for (size_t i = 0; i < c->store.n_servers; i++)
		buf_addf(out, "%s%s, database %u", i ? ", else at " : "",
			c->store.servers[i].addr.text, c->store.servers[i].db);
	buf_add_str(out, ", timeout ");
	unit_put_duration(out, c->store.timeout_ms);
	buf_addf(out, "; without it %s\n", policies[c->fallback.policy]);
}

static void put_users(const struct config *c, struct buf *out)
{
	static const char *const names[] = {
		[USER_TOKEN] = "token",
		[USER_REMOTE_USER] = "remote_user",
	};

	for (size_t i = 0; i < c->client.n_user; i++)
		buf_addf(out, "%s%s", i ? ", " : "users by ", names[c->client.user[i]]);
	if (*c->client.directory)
		buf_addf(out, "%sdirectory %s", c->client.n_user ? "; " : "",
			c->client.directory);
	if (c->client.n_user || *c->client.directory)
		buf_add_byte(out, '\n');
}

#define SHARD_LEAST (4 << 20) /* bytes */

size_t config_memory_shards(uint64_t bytes)
{
	size_t n = MEMORY_SHARDS_MAX;

	while (n > 1 && bytes / n < SHARD_LEAST)
		n /= 2;
	return n;
}

void config_summary(const struct config *c, struct buf *out)
{
	static const char *const modes[] = {
		[MODE_ENFORCE] = "",
		[MODE_SHADOW] = ", all rules in shadow mode",
		[MODE_OFF] = ", all rules off",
	};

	buf_addf(out, "%s: files %zu, endpoints %zu, backends %zu%s\n", c->file, c->n_files,
		c->n_endpoints, c->n_backends, modes[c->server.mode]);
	for (size_t i = 0; i < c->server.n_listen; i++)
		buf_addf(out, "listen %s\n", c->server.listen[i].text);
	put_store(c, out);
	put_users(c, out);
	for (size_t i = 0; i < c->n_backends; i++)
		put_backend(&c->backends[i], out);
	if (c->site.n)
		buf_add_str(out, "site\n");
	put_tiers(&c->site, out);
	for (size_t i = 0; i < c->n_endpoints; i++) {
		const struct endpoint *e = &c->endpoints[i];

		buf_addf(out, "endpoint %s to %s (%s:%u)\n", e->name,
			e->backend ? e->backend->name : "no backend", e->file, e->line);
		put_tiers(&e->tiers, out);
	}
}
