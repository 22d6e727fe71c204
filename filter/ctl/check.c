/*
 * ctl/check.c - weirctl check: would weir start with this configuration?
 *
 * Mistakes and notices go to standard error, what is in force to standard output, so
 * that a script can look at the one and a person at both.
 */
#include <stdio.h>

#include "config/config.h"
#include "ctl/ctl.h"
#include "startable.h"

int command_check(struct ctl *ctl, int argc, char **argv)
{
	int status = ctl_plain_options(ctl, argc, argv, false);
	struct buf messages = { 0 }, summary = { 0 };
	struct config *c = NULL;

	if (status != CTL_OK)
		return status;
	if (!config_load(ctl->config, &c, &messages) ||
		!startable(c, STARTABLE_ASKED, &messages))
		status = CTL_FAILED;
	if (messages.n)
		fwrite(messages.p, 1, messages.n, stderr);
	if (!buf_ok(&messages))
		fputs("weirctl: out of memory; what was found is not shown to its end\n",
			stderr);
	buf_release(&messages);
	if (status == CTL_OK) {
		config_summary(c, &summary);
		status = ctl_print(&summary);
	}
	config_unref(c);
	return status;
}
