/*
 * ctl/options.c - weirctl options: the reference, printed from the table of options.
 */
#include "config/options.h"
#include "ctl/ctl.h"

int command_options(struct ctl *ctl, int argc, char **argv)
{
	int status = ctl_plain_options(ctl, argc, argv, false);
	struct buf out = { 0 };

	if (status != CTL_OK)
		return status;
	options_print(&out);
	return ctl_print(&out);
}
