/*
 * config/kinds.h - what sorts of values options have.
 */
#ifndef WEIR_CONFIG_KINDS_H
#define WEIR_CONFIG_KINDS_H

#include "config/options.h"

struct option_kind {
	const char *form; /* how the reference writes it */
	bool (*read)(const struct option *o, void *field, size_t *n, struct view value,
		struct buf *why);
	/* Frees the field's contents; NULL when there are none. */
	void (*release)(void *field, size_t *n);
	/* In place of read for rows with OPT_SUFFIX; suffix is what stands for the word. */
	bool (*read_suffix)(const struct option *o, void *field, size_t *n,
		struct view suffix, struct view value, struct buf *why);
	/* Whether two fields hold the same; n_a and n_b are the lengths of lists. NULL where
	 * a reload takes every option of the kind. */
	bool (*same)(const void *a, const size_t *n_a, const void *b, const size_t *n_b);
};

/* For readers: keep a copy of value in the char * at field. */
bool kind_keep_text(void *field, struct view value, struct buf *why);
void kind_release_text(void *field, size_t *n);
bool kind_same_text(const void *a, const size_t *n_a, const void *b, const size_t *n_b);
/* Room for one more element of size bytes in the list at field, which has n. The
 * caller counts it. NULL when memory is out. */
void *kind_list_room(void *field, size_t n, size_t size, struct buf *why);
void kind_release_list(void *field, size_t *n);

/* Puts text, an address of either family, into net's addr; *mapped: it is an IPv4 one
 * written as IPv6. False when it is none. */
bool kind_read_ip(struct view text, struct network *net, bool *mapped);

/* Whether the networks have every address between them that is addr_n bytes long. */
bool kind_networks_are_all(const struct networks *nets, unsigned addr_n);

/* kinds.c */
extern const struct option_kind kind_number, kind_auto, kind_size, kind_ms, kind_bool,
	kind_enum, kind_mode, kind_rate;
extern const struct option_kind kind_text, kind_name, kind_path, kind_prefix, kind_texts,
	kind_prefixes;
/* kinds_client.c */
extern const struct option_kind kind_users, kind_header, kind_directory;
/* kinds_reply.c */
extern const struct option_kind kind_sentence, kind_localized, kind_media_type;
/* kinds_variable.c */
extern const struct option_kind kind_variables;
/* kinds_net.c */
extern const struct option_kind kind_control, kind_addresses, kind_networks;
/* kinds_redis.c */
extern const struct option_kind kind_redis;

#endif
