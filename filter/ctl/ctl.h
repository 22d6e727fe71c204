/*
 * ctl/ctl.h - what the commands of weirctl share.
 *
 * A command is a file with one function, and a row in the table of main.c. It reads
 * its own options, so that `weirctl check -c FILE` and `weirctl -c FILE check` are
 * the same, and returns the exit status: CTL_OK, CTL_FAILED after saying why on
 * standard error, CTL_USAGE for a command line that makes no sense. argv[0] is what getopt
 * begins its complaints with, "weirctl check".
 */
#ifndef WEIR_CTL_CTL_H
#define WEIR_CTL_CTL_H

#include "base/buf.h"

enum ctl_exit {
	CTL_OK = 0,
	CTL_FAILED = 1, /* a mistake was found, or weir cannot be reached */
	CTL_USAGE = 2,
};

#define CTL_CONFIG_DEFAULT "/etc/weir/weir.ini"
#define CTL_SOCKET_DEFAULT "unix:/run/weir/control.sock"
#define CTL_TIMEOUT_MS     5000 /* for weir to answer */

/* What the command line says, whichever command it is. */
struct ctl {
	const char *command;
	const char *config; /* file; CTL_CONFIG_DEFAULT unless given */
	const char *socket; /* address; NULL unless given */
	bool config_given;
	bool json;      /* for commands that have it, as have those with db */
	const char *db; /* file; NULL unless given */
};

/* Every command's options, before the command or behind it. Own ones are added behind them
 * with letters or numbers from 256 on; "+" in front of CTL_SHORT leaves what is behind the
 * command alone. <getopt.h> is for the commands to include: its struct option is not
 * config/options.h's. */
#define CTL_SHORT "c:s:h"
#define CTL_LONG                                            \
	{ "config", required_argument, NULL, 'c' },         \
		{ "socket", required_argument, NULL, 's' }, \
		{ "db", required_argument, NULL, 'D' },     \
		{ "json", no_argument, NULL, 'j' },         \
	{                                                   \
		"help", no_argument, NULL, 'h'              \
	}

/* Takes an option of those above; false when it is none. --help prints and exits. */
bool ctl_option(struct ctl *ctl, int letter);

/* Reads a command's options where there are no own ones but, if json, --json, and refuses
 * operands. CTL_OK to go on. */
int ctl_plain_options(struct ctl *ctl, int argc, char **argv, bool json);

/* The control address: as given, else as the configuration says. A file that was given
 * must be readable and right; the usual one may be closed to whoever asks (it can hold
 * a password) or be under work, and then the usual address is tried. False with a
 * sentence in why. */
bool ctl_address(const struct ctl *ctl, struct buf *address, struct buf *why);

/* Prints what is in b and releases it; CTL_FAILED when it was cut short by lack of
 * memory or cannot be written. */
int ctl_print(struct buf *b);

/* The commands. */
int command_check(struct ctl *ctl, int argc, char **argv);
int command_db(struct ctl *ctl, int argc, char **argv);
int command_options(struct ctl *ctl, int argc, char **argv);
int command_plan(struct ctl *ctl, int argc, char **argv);
int command_status(struct ctl *ctl, int argc, char **argv);
int command_token(struct ctl *ctl, int argc, char **argv);
int command_user(struct ctl *ctl, int argc, char **argv);

#endif
