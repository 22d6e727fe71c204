/*
 * plain.c - runs the tests of a program, see criterion/criterion.h.
 *
 *	PROGRAM [--filter SUITE/TEST]      the filter may hold * and ?
 *
 * WEIR_TEST_PATIENCE multiplies the time limits: what watches memory is slow.
 */
#include <criterion/criterion.h>
#include <fnmatch.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_SKIPPED 77

const struct criterion_suite *criterion_current_suite;
const struct criterion_test *criterion_current_test;

static struct criterion_suite *suites;
static struct criterion_test *tests, **tests_end = &tests;

/* In the process of a test. */
static jmp_buf ended;
static pthread_t thread;
static volatile bool failed, skipped;

void plain_add_test(struct criterion_test *t)
{
	*tests_end = t;
	tests_end = &t->next;
}

void plain_add_suite(struct criterion_suite *s)
{
	s->next = suites;
	suites = s;
}

static void tell(const char *fmt, va_list ap)
{
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
}

void plain_failed(
	bool fatal, const char *file, int line, const char *what, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s:%d: %s:", file, line, what);
	va_start(ap, fmt);
	tell(fmt, ap);
	va_end(ap);
	if (!pthread_equal(pthread_self(), thread))
		_exit(1);
	failed = true;
	if (fatal)
		longjmp(ended, 1);
}

void plain_skip(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	tell(fmt, ap);
	va_end(ap);
	skipped = true;
	longjmp(ended, 1);
}

void plain_log(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	tell(fmt, ap);
	va_end(ap);
}

static const struct criterion_suite *suite_of(const struct criterion_test *t)
{
	static struct criterion_suite none;

	for (const struct criterion_suite *s = suites; s; s = s->next)
		if (strcmp(s->name, t->category) == 0)
			return s;
	none.name = t->category;
	return &none;
}

static void call(void (*f)(void))
{
	if (f && setjmp(ended) == 0)
		f();
}

static void run_here(const struct criterion_test *t)
{
	const struct criterion_suite *s = suite_of(t);
	const char *patience = getenv("WEIR_TEST_PATIENCE");
	double limit = t->extra.timeout ? t->extra.timeout : s->extra.timeout;

	thread = pthread_self();
	criterion_current_suite = s;
	criterion_current_test = t;
	alarm((unsigned)(limit * (patience ? atof(patience) : 1)));
	call(s->extra.init);
	call(t->extra.init);
	if (!failed && !skipped)
		call(t->run);
	call(t->extra.fini);
	call(s->extra.fini);
	fflush(NULL);
	exit(failed ? 1 : skipped ? EXIT_SKIPPED : 0);
}

static enum criterion_status run(struct criterion_test *t, bool *crashed)
{
	int status = 1;
	pid_t pid = fork();

	if (pid == 0)
		run_here(t);
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return CR_STATUS_FAILED;
	*crashed = WIFSIGNALED(status);
	if (*crashed)
		fprintf(stderr, "%s/%s: signal %d%s\n", t->category, t->name,
			WTERMSIG(status), WTERMSIG(status) == SIGALRM ? ", too slow" : "");
	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIPPED)
		return CR_STATUS_SKIPPED;
	return status == 0 ? CR_STATUS_PASSED : CR_STATUS_FAILED;
}

int main(int argc, char **argv)
{
	unsigned tested = 0, passing = 0, failing = 0, crashing = 0;
	const char *filter = "*";
	char name[512];

	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--filter") == 0 && argv[i + 1])
			filter = argv[++i];
	for (struct criterion_test *t = tests; t; t = t->next) {
		struct criterion_test_stats stats = { .test = t };
		bool crashed = false;

		snprintf(name, sizeof(name), "%s/%s", t->category, t->name);
		if (fnmatch(filter, name, 0) != 0)
			continue;
		stats.test_status = run(t, &crashed);
		if (plain_hook_POST_TEST)
			plain_hook_POST_TEST(&stats);
		if (stats.test_status == CR_STATUS_SKIPPED)
			continue;
		tested++;
		passing += stats.test_status == CR_STATUS_PASSED;
		crashing += crashed;
		failing += stats.test_status == CR_STATUS_FAILED && !crashed;
		if (stats.test_status == CR_STATUS_FAILED)
			fprintf(stderr, "FAILED: %s\n", name);
	}
	/* Criterion's words: count.py reads them. */
	fprintf(stderr,
		"Synthesis: Tested: %u | Passing: %u | Failing: %u | Crashing: %u\n",
		tested, passing, failing, crashing);
	return failing + crashing != 0;
}
