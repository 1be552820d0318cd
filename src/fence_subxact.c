/*
 * fence_subxact.c
 *		Work in a subtransaction that may be given up.
 *
 * Rule: memory context and resource owner are the caller's afterwards, however
 * it ends.
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "fence_subxact.h"

/*
 * fence_subxact_run
 *
 * Call work(arg) in a subtransaction, in the caller's memory context. The
 * subtransaction is kept if it returns true, and rolled back if it returns
 * false or fails. Returns NULL, or a copy of the error, which the caller
 * raises again or answers for.
 */
ErrorData *
fence_subxact_run(bool (*work) (void *arg), void *arg)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		if (work(arg))
			ReleaseCurrentSubTransaction();
		else
			RollbackAndReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return error;
}
