/*
 * ctl/options.c - weirctl options: the reference, printed from the tables of options and
 * of the attributes of @RateLimit.
 */
#include "config/options.h"
#include "config/rule_read.h"
#include "ctl/ctl.h"

int command_options(struct ctl *ctl, int argc, char **argv)
{
	int status = ctl_plain_options(ctl, argc, argv, false);
	struct buf out = { 0 };

	if (status != CTL_OK)
		return status;
	options_print(&out);
	buf_add_str(&out,
		"\n[site], [endpoint NAME]\n@RateLimit = ATTRIBUTE=VALUE ...    (may "
		"repeat)\n");
	rules_print(&out);
	return ctl_print(&out);
}
