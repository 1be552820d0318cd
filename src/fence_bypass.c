/*
 * fence_bypass.c
 *		Tables that this transaction may write unguarded.
 *
 * Rule: nothing here outlives the transaction, or the subtransaction that is
 * rolled back. The list lives in TopTransactionContext.
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/memutils.h"

#include "fence_bypass.h"

typedef struct Bypass
{
	Oid			relid;
	int			nest;			/* transaction depth that allowed it */
	struct Bypass *next;		/* of the same depth or a lower one */
} Bypass;

bool		fence_bypass_any = false;

static Bypass *bypasses = NULL;

static void
end_transaction(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT ||
		event == XACT_EVENT_PREPARE)
	{
		bypasses = NULL;
		fence_bypass_any = false;
	}
}

static void
end_subtransaction(SubXactEvent event, SubTransactionId mine,
				   SubTransactionId parent, void *arg)
{
	int			depth = GetCurrentTransactionNestLevel();

	if (event == SUBXACT_EVENT_COMMIT_SUB)
		for (Bypass *bypass = bypasses;
			 bypass != NULL && bypass->nest == depth;
			 bypass = bypass->next)
			bypass->nest = depth - 1;
	else if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		while (bypasses != NULL && bypasses->nest >= depth)
			bypasses = bypasses->next;
		fence_bypass_any = bypasses != NULL;
	}
}

/* fence_bypass_covers: may this transaction write the table unguarded? */
bool
fence_bypass_covers(Oid relid)
{
	for (Bypass *bypass = bypasses; bypass != NULL; bypass = bypass->next)
		if (bypass->relid == relid)
			return true;
	return false;
}

/* fence_bypass_add: it may, from here to its end */
void
fence_bypass_add(Oid relid)
{
	static bool registered = false;
	Bypass	   *bypass;

	if (fence_bypass_covers(relid))
		return;
	if (!registered)
	{
		RegisterXactCallback(end_transaction, NULL);
		RegisterSubXactCallback(end_subtransaction, NULL);
		registered = true;
	}
	bypass = MemoryContextAlloc(TopTransactionContext, sizeof(Bypass));
	bypass->relid = relid;
	bypass->nest = GetCurrentTransactionNestLevel();
	bypass->next = bypasses;
	bypasses = bypass;
	fence_bypass_any = true;
}
