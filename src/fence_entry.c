/*
 * fence_entry.c
 *		What every SQL function that writes begins with.
 *
 * Rule: where nothing can be written it is said before anything happens, above
 * all outside the database.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"

#include "fence_entry.h"
#include "fence_stats.h"

/*
 * fence_entry_writes
 *
 * Raises 25006 on a standby and in a read-only transaction, naming the
 * command, and lets the transaction count.
 */
void
fence_entry_writes(const char *command)
{
	PreventCommandDuringRecovery(command);
	PreventCommandIfReadOnly(command);
	PreventCommandIfParallelMode(command);
	fence_stats_begin();
}
