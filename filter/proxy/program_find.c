/*
 * proxy/program_find.c - which file a request runs.
 *
 * Web servers name the program in different ways: lighttpd gives its file and splits
 * the path, nginx gives the whole path below the document root, Apache puts the name
 * of the proxy in front of it and may escape it. So only the file system says where a
 * program's name ends, and SCRIPT_NAME and PATH_INFO are derived from that.
 */
#include "proxy/program.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/shortage.h"

/* Symbolic links are followed as long as they stay below root. */
static int open_beneath(int root, const char *path)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
	};
	long fd = -1;

	/* EAGAIN: something was renamed meanwhile, and the kernel could not be sure. */
	for (int i = 0; i < 32 && fd < 0; i++) {
		fd = syscall(SYS_openat2, root, path, &how, sizeof(how));
		if (fd < 0 && errno != EAGAIN && errno != EINTR)
			break;
	}
	return (int)fd;
}

static enum program_found from_errno(int err, const char **why)
{
	switch (err) {
	case ENOENT:
	case ENOTDIR:
	case ENAMETOOLONG: *why = "no such program"; return PROGRAM_MISSING;
	case EXDEV: *why = "the path leads out of the root"; return PROGRAM_FORBIDDEN;
	case ELOOP: *why = "too many symbolic links"; return PROGRAM_FORBIDDEN;
	case EACCES:
		*why = "a directory that may not be searched";
		return PROGRAM_FORBIDDEN;
	case EMFILE:
	case ENFILE:
	case ENOMEM:
		shortage_seen(err, "finding a program");
		*why = "no descriptor or memory to find the program with";
		return PROGRAM_FAILED;
	case ENOSYS:
	case EPERM: *why = "openat2 is not available here"; return PROGRAM_FAILED;
	default: *why = "the root of the programs cannot be read"; return PROGRAM_FAILED;
	}
}

static enum program_found check_file(int fd, const struct stat *st, const char **why)
{
	if (!S_ISREG(st->st_mode)) {
		*why = "not a regular file";
		return PROGRAM_FORBIDDEN;
	}
	/* Readable it need not be. A kernel without faccessat2 leaves it to execve. */
	if (faccessat(fd, "", X_OK, AT_EMPTY_PATH | AT_EACCESS) < 0 && errno == EACCES) {
		*why = "not executable";
		return PROGRAM_FORBIDDEN;
	}
	return PROGRAM_FOUND;
}

/* Walks rel, which starts with '/', from root down to the first regular file. at gets
 * the file's path from root, *rest what follows it in rel, *dir its directory. */
static enum program_found walk(int root, struct view rel, struct buf *at, int *dir,
	struct view *rest, const char **why)
{
	enum program_found found = PROGRAM_FORBIDDEN;
	int here = fcntl(root, F_DUPFD_CLOEXEC, 0);

	*why = "a directory";
	while (here >= 0 && rel.n) {
		struct view segment;
		const char *end;
		struct stat st;
		int fd;

		rel = view_skip(rel, 1);
		end = rel.n ? memchr(rel.p, '/', rel.n) : NULL;
		segment = view_of(rel.p, end ? (size_t)(end - rel.p) : rel.n);
		rel = view_skip(rel, segment.n);
		if (segment.n == 0 || view_eq(segment, VIEW(".")))
			continue;
		if (at->n)
			buf_add_byte(at, '/');
		buf_add(at, segment);
		fd = buf_str(at) ? open_beneath(root, at->p) : (errno = ENOMEM, -1);
		if (fd < 0) {
			found = from_errno(errno, why);
			break;
		}
		if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
			close(here);
			here = fd;
			continue;
		}
		found = check_file(fd, &st, why);
		close(fd);
		break;
	}
	if (here < 0) {
		shortage_seen(errno, "the root of the programs");
		*why = "no descriptor for the root of the programs";
		return PROGRAM_FAILED;
	}
	if (found != PROGRAM_FOUND) {
		close(here);
		return found;
	}
	*dir = here;
	*rest = rel;
	return PROGRAM_FOUND;
}

static bool has_dot_dot(struct view path)
{
	while (path.n) {
		if (view_eq(view_cut(&path, '/'), VIEW("..")))
			return true;
	}
	return false;
}

static struct view without_end(struct view v, char c)
{
	while (v.n && v.p[v.n - 1] == c)
		v.n--;
	return v;
}

/* v behind prefix, when that ends at the end of a segment. */
static bool below(struct view v, struct view prefix, struct view *rest)
{
	prefix = without_end(prefix, '/');
	if (!view_starts(v, prefix) || (v.n > prefix.n && v.p[prefix.n] != '/'))
		return false;
	*rest = view_skip(v, prefix.n);
	return true;
}

/* Undoes the escapes of a URL's path once. "%2F" separates nothing and stays, as it does in
 * the SCRIPT_NAME that Apache sends with it. */
static void unescape(struct view v, struct buf *out)
{
	while (v.n) {
		int byte = view_escape(v);
		bool escape = byte >= 0 && byte != '/';

		buf_add_byte(out, escape ? (char)byte : v.p[0]);
		v = view_skip(v, escape ? 3 : 1);
	}
}

/* How many bytes the two have in common at their ends. */
static size_t same_end(struct view a, struct view b)
{
	size_t n = 0;

	while (n < a.n && n < b.n && a.p[a.n - 1 - n] == b.p[b.n - 1 - n])
		n++;
	return n;
}

/*
 * Behind a proxy's name Apache writes the file as it is (SetHandler), or escaped like the
 * path of a URL (ProxyPass, RewriteRule with [P]), and does not say which. SCRIPT_NAME is
 * never escaped, and the file's end comes from it: the form that has more of it is the
 * right one. Where they have the same, escapes can only be in the directory, and the root
 * tells. A wrong guess would find nothing: what is guessed is walked like any other path.
 */
static struct view as_it_is(const struct backend *b, const struct request *rq,
	struct view file, struct buf *scratch)
{
	struct view name = request_param(rq, "SCRIPT_NAME"), root = view_str(b->root), rest;
	size_t raw = same_end(file, name), plain;

	unescape(file, scratch);
	if (!buf_ok(scratch) || view_eq(file, buf_view(scratch)))
		return file;
	plain = same_end(buf_view(scratch), name);
	if (plain > raw ||
		(plain == raw && !below(file, root, &rest) &&
			below(buf_view(scratch), root, &rest)))
		return buf_view(scratch);
	return file;
}

/* SCRIPT_FILENAME as a path: "proxy:fcgi://weir:9000//srv/a.cgi?q" is "/srv/a.cgi".
 * Borrowed from rq or scratch, which is empty before; it has failed when memory is out. */
static struct view script_file(
	const struct backend *b, const struct request *rq, struct buf *scratch)
{
	struct view file = request_param(rq, "SCRIPT_FILENAME");
	struct view query = request_param(rq, "QUERY_STRING");
	static const char *const proxies[] = { "proxy:fcgi://", "proxy:balancer://" };

	for (size_t i = 0; i < COUNT_OF(proxies); i++) {
		struct view proxy = view_str(proxies[i]);

		if (!view_starts(file, proxy))
			continue;
		file = view_skip(file, proxy.n);
		while (file.n && file.p[0] != '/')
			file = view_skip(file, 1);
		while (file.n > 1 && file.p[1] == '/')
			file = view_skip(file, 1);
		return as_it_is(b, rq, view_cut(&file, '?'), scratch);
	}
	/* Without a proxy's name a '?' may be part of it, unless it brings the query. */
	if (query.n && file.n > query.n && file.p[file.n - query.n - 1] == '?' &&
		view_eq(view_skip(file, file.n - query.n), query))
		file.n -= query.n + 1;
	return file;
}

/*
 * SCRIPT_NAME is the part of the URL's path that names the program. rest is what the
 * walk left of the file's path: when the URL ends with it, the cut is there. Without a
 * rest the web server has named the file alone, and cut the URL itself; unless, as
 * lighttpd does for a handler at "/", it left all of the URL in PATH_INFO.
 */
static void split_url(const struct request *rq, struct view path, struct view file,
	struct view rest, struct buf *script_name, struct buf *path_info)
{
	struct view name = request_param(rq, "SCRIPT_NAME");
	struct view info = request_param(rq, "PATH_INFO");
	const char *slash = memrchr(file.p, '/', file.n);
	struct view base = slash ? view_skip(file, (size_t)(slash - file.p) + 1) : file;

	if (name.n == 0 && info.n == 0)
		name = path;
	if (rest.n == 0 && (view_ends(name, base) || !view_ends(info, base))) {
		buf_add(script_name, name);
		buf_add(path_info, info);
		return;
	}
	buf_add(script_name, name);
	buf_add(script_name, info);
	if (buf_ok(script_name) && view_ends(buf_view(script_name), rest))
		script_name->n -= rest.n;
	buf_add(path_info, rest);
}

/* A canonical path has lost the slash at its end, which means something to programs. */
static bool lost_slash(const struct request *rq, struct view rest)
{
	struct buf scratch = { 0 };
	struct view sent = request_target(rq, &scratch).path;
	bool lost = sent.n > 1 && sent.p[sent.n - 1] == '/' &&
		(rest.n == 0 || rest.p[rest.n - 1] != '/');

	buf_release(&scratch);
	return lost;
}

/* PATH_TRANSLATED is PATH_INFO taken for a path below the document root. */
static bool fill_place(const struct backend *b, const struct request *rq, struct view file,
	struct buf *script_name, struct buf *path_info, struct program_place *out)
{
	struct buf text = { 0 }, translated = { 0 };
	struct view root = without_end(view_str(b->root), '/');
	struct view docs = request_param(rq, "DOCUMENT_ROOT");

	buf_add(&text, root);
	buf_add_byte(&text, '/');
	buf_add(&text, file);
	if (path_info->n) {
		buf_add(&translated, docs.n ? without_end(docs, '/') : root);
		buf_add(&translated, buf_view(path_info));
	}
	out->file = buf_steal(&text);
	out->script_name = buf_steal(script_name);
	out->path_info = buf_steal(path_info);
	out->path_translated = buf_steal(&translated);
	return out->file && out->script_name && out->path_info && out->path_translated;
}

/* What is to be walked: rel, and whether SCRIPT_FILENAME said it. rel is borrowed from
 * path, rq or scratch. */
static enum program_found choose(const struct backend *b, const struct request *rq,
	struct view path, struct buf *scratch, struct view *rel, bool *by_file,
	const char **why)
{
	struct view file = script_file(b, rq, scratch);

	if (!buf_ok(scratch)) {
		*why = "no memory";
		return PROGRAM_FAILED;
	}
	/* Line breaks that nobody has seen yet. */
	if (file.n && file.p == scratch->p &&
		(memchr(file.p, '\n', file.n) || memchr(file.p, '\r', file.n))) {
		*why = "CR or LF in the path";
		return PROGRAM_FORBIDDEN;
	}
	if ((file.n && memchr(file.p, '\0', file.n)) ||
		(path.n && memchr(path.p, '\0', path.n))) {
		*why = "NUL in the path";
		return PROGRAM_FORBIDDEN;
	}
	*by_file = file.n && file.p[0] == '/' && below(file, view_str(b->root), rel) &&
		without_end(*rel, '/').n;
	if (!*by_file && !below(path, view_str(b->prefix), rel)) {
		*why = "the path is not below the prefix";
		return PROGRAM_MISSING;
	}
	if (has_dot_dot(*rel)) {
		*why = "\"..\" in the path";
		return PROGRAM_FORBIDDEN;
	}
	return PROGRAM_FOUND;
}

enum program_found program_find(const struct backend *b, const struct request *rq,
	struct view path, struct program_place *out, const char **why)
{
	struct program_place place = PROGRAM_PLACE_NONE;
	struct buf at = { 0 }, script_name = { 0 }, path_info = { 0 }, scratch = { 0 };
	struct view rel, rest;
	bool by_file;
	enum program_found found = choose(b, rq, path, &scratch, &rel, &by_file, why);
	int root = -1;

	if (found != PROGRAM_FOUND)
		goto out;
	root = open(b->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0) {
		shortage_seen(errno, "the root of the programs");
		*why = "the root of the programs cannot be opened";
		found = PROGRAM_FAILED;
		goto out;
	}
	found = walk(root, rel, &at, &place.dir, &rest, why);
	close(root);
	if (found != PROGRAM_FOUND)
		goto out;
	if (by_file) {
		split_url(rq, path, buf_view(&at), rest, &script_name, &path_info);
	} else {
		buf_add(&script_name, view_of(path.p, path.n - rest.n));
		buf_add(&path_info, rest);
		if (lost_slash(rq, rest))
			buf_add_byte(&path_info, '/');
	}
	if (fill_place(b, rq, buf_view(&at), &script_name, &path_info, &place)) {
		*out = place;
		place = PROGRAM_PLACE_NONE;
	} else {
		*why = "no memory";
		found = PROGRAM_FAILED;
	}
out:
	program_place_release(&place);
	buf_release(&at);
	buf_release(&script_name);
	buf_release(&path_info);
	buf_release(&scratch);
	return found;
}

void program_place_release(struct program_place *place)
{
	free(place->file);
	free(place->script_name);
	free(place->path_info);
	free(place->path_translated);
	if (place->dir >= 0)
		close(place->dir);
	*place = PROGRAM_PLACE_NONE;
}
