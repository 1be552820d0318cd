/*
 * fence_durable.c
 *		Commits that a crash or a failover must not lose.
 *
 * Rule: a raise must not be lost after its token was handed out. Its
 * transaction waits for its commit record to be on disk, and on a synchronous
 * standby where the server asks for one, whatever the session has set, or sets
 * before it commits.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/guc.h"

#include "fence_durable.h"

static bool durable = false;

static void
raise_setting(void)
{
	ForceSyncCommit();
	if (synchronous_commit < SYNCHRONOUS_COMMIT_REMOTE_FLUSH)
		(void) set_config_option("synchronous_commit", "on",
								 PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_LOCAL, true, 0, false);
}

static void
xact_callback(XactEvent event, void *arg)
{
	if (!durable)
		return;
	if (event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PRE_PREPARE)
		raise_setting();
	else if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT ||
			 event == XACT_EVENT_PREPARE)
		durable = false;
}

/* fence_commit_durably: this transaction has raised, issued or forgotten */
void
fence_commit_durably(void)
{
	static bool registered = false;

	if (!registered)
	{
		RegisterXactCallback(xact_callback, NULL);
		registered = true;
	}
	durable = true;
	raise_setting();
}
