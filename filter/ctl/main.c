/*
 * ctl/main.c - weirctl, the operator's tool.
 *
 * It finds the command and hands the rest of the line to it. Nothing is kept here
 * between two runs, and weir does not need to be running for commands that only read
 * files.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "ctl/ctl.h"

static const struct command {
	const char *name, *arguments, *help;
	int (*run)(struct ctl *ctl, int argc, char **argv);
} commands[] = {
	{ "check", "", "read the configuration: every mistake, or what is in force",
		command_check },
	{ "options", "", "the reference of all options, with their defaults",
		command_options },
	{ "status", "[--json]", "what the running weir is doing", command_status },
	{ "token", "add|list|revoke", "tokens that users are known by", command_token },
	{ "user", "add|list|set|...", "users and their plans", command_user },
	{ "plan", "add|list|remove", "the plans that users can be on", command_plan },
	{ "db", "init|migrate", "the file of users, plans and tokens", command_db },
};

static void print_usage(FILE *to)
{
	char left[32];

	fputs("usage: weirctl [-c FILE] [-s ADDRESS] COMMAND ...\n       weirctl -h | "
	      "-V\n\n",
		to);
	for (size_t i = 0; i < COUNT_OF(commands); i++) {
		snprintf(left, sizeof(left), "%s%s%s", commands[i].name,
			*commands[i].arguments ? " " : "", commands[i].arguments);
		fprintf(to, "  %-22s  %s\n", left, commands[i].help);
	}
	fputs("\n  -c, --config FILE   configuration; " CTL_CONFIG_DEFAULT "\n"
	      "  -s, --socket ADDR   control socket, unix:/path; else as that file says\n"
	      "  -h, --help          this text\n"
	      "  -V, --version       version\n"
	      "      --db FILE       of db, plan, token, user: the directory's file\n"
	      "      --json          of these and status: the answer for programs\n\n"
	      "The manual is weirctl(1).\n",
		to);
}

bool ctl_option(struct ctl *ctl, int letter)
{
	switch (letter) {
	case 'c':
		ctl->config = optarg;
		ctl->config_given = true;
		return true;
	case 's': ctl->socket = optarg; return true;
	case 'D': ctl->db = optarg; return true;
	case 'j': ctl->json = true; return true;
	case 'h': print_usage(stdout); exit(CTL_OK);
	default: return false;
	}
}

int ctl_plain_options(struct ctl *ctl, int argc, char **argv, bool json)
{
	static const struct option options[] = { CTL_LONG, { 0 } };
	const char *beyond = NULL;
	int letter;

	while ((letter = getopt_long(argc, argv, CTL_SHORT, options, NULL)) != -1) {
		if (!ctl_option(ctl, letter))
			return CTL_USAGE; /* getopt has said why */
	}
	if (ctl->db)
		beyond = "--db";
	else if (ctl->json && !json)
		beyond = "--json";
	else if (optind < argc)
		beyond = argv[optind];
	if (!beyond)
		return CTL_OK;
	fprintf(stderr, "weirctl: %s takes no \"%s\"\n", ctl->command, beyond);
	return CTL_USAGE;
}

bool ctl_address(const struct ctl *ctl, struct buf *address, struct buf *why)
{
	struct buf messages = { 0 };
	struct config *c = NULL;
	bool ok = true;

	if (ctl->socket) {
		buf_add_str(address, ctl->socket);
		return true;
	}
	if (!config_load(ctl->config, &c, &messages) && !ctl->config_given) {
		buf_add_str(address, CTL_SOCKET_DEFAULT);
	} else if (!c) {
		buf_addf(why,
			"where the control socket is cannot be read from %s (weirctl check "
			"says why); name it with --socket unix:/run/weir/control.sock",
			ctl->config);
		ok = false;
	} else if (!*c->server.control) {
		buf_addf(why,
			"%s has no control socket (control in [server] is empty): this "
			"weir cannot be asked",
			ctl->config);
		ok = false;
	} else {
		buf_add_str(address, c->server.control);
	}
	config_unref(c);
	buf_release(&messages);
	return ok;
}

int ctl_print(struct buf *b)
{
	bool ok = buf_ok(b) && fwrite(b->p ? b->p : "", 1, b->n, stdout) == b->n;

	ok = fflush(stdout) == 0 && ok;
	buf_release(b);
	if (ok)
		return CTL_OK;
	perror("weirctl");
	return CTL_FAILED;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		CTL_LONG,
		{ "version", no_argument, NULL, 'V' },
		{ 0 },
	};
	struct ctl ctl = { .config = CTL_CONFIG_DEFAULT };
	static char title[64]; /* what getopt begins its complaints with */
	int letter, first;

	snprintf(title, sizeof(title), "weirctl");
	if (argc > 0)
		argv[0] = title;
	while ((letter = getopt_long(argc, argv, "+V" CTL_SHORT, options, NULL)) != -1) {
		if (letter == 'V') {
			puts("weirctl " WEIR_VERSION);
			return CTL_OK;
		}
		if (!ctl_option(&ctl, letter)) {
			print_usage(stderr);
			return CTL_USAGE;
		}
	}
	if (optind == argc) {
		print_usage(stderr);
		return CTL_USAGE;
	}
	first = optind;
	optind = 0; /* glibc: begin anew, with the command's own options */
	for (size_t i = 0; i < COUNT_OF(commands); i++) {
		if (strcmp(argv[first], commands[i].name) != 0)
			continue;
		ctl.command = commands[i].name;
		snprintf(title, sizeof(title), "weirctl %s", ctl.command);
		argv[first] = title;
		return commands[i].run(&ctl, argc - first, argv + first);
	}
	fprintf(stderr, "weirctl: there is no command \"%s\"; weirctl --help lists them\n",
		argv[first]);
	return CTL_USAGE;
}
