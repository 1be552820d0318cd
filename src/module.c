/*
 * module.c
 *		Module magic and start-up.
 *
 * Rule: nothing is set up here that a session without fences would pay for.
 * Callbacks are registered on first use by the files that need them, but for
 * the last line of the commit check.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/guc.h"

#include "compat.h"
#include "debug_point.h"
#include "fence_activity.h"
#include "fence_journal.h"
#include "fence_observe.h"
#include "fence_commit.h"
#include "fence_shared.h"

LOCKFENCE_MODULE_MAGIC;

void		_PG_init(void);

void
_PG_init(void)
{
#ifdef LOCKFENCE_DEBUG_POINTS
	debug_point_init();
#endif
	fence_activity_init();
	fence_journal_init();
	fence_observe_init();
	MarkGUCPrefixReserved("lockfence");
	fence_commit_init();
	fence_shared_preload();
}
