/*
 * fence_journal.c
 *		The last refusals, kept over the rollback that each causes.
 *
 * Rule: the lock is held for one copy. Refusals are rare where all is well,
 * and a stale worker that keeps trying only waits for itself.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "tcop/cmdtag.h"
#include "tcop/pquery.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/portal.h"
#include "utils/timestamp.h"

#include "fence_journal.h"

int			fence_journal_size = 256;

/*
 * fence_journal_init
 *
 * lockfence.rejection_log_size: how many refusals lockfence.rejections shows.
 * The memory for the greatest number is always there.
 */
void
fence_journal_init(void)
{
	DefineCustomIntVariable("lockfence.rejection_log_size",
							"Sets how many of the last refusals are kept.",
							"Zero keeps none.",
							&fence_journal_size, 256, 0, FENCE_MAX_REJECTIONS,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
}

/* The client's address as text; empty if it is local. */
static void
client_address(char *buffer, Size size)
{
	LOCAL_FCINFO(fcinfo, 0);
	Datum		address;

	InitFunctionCallInfoData(*fcinfo, NULL, 0, InvalidOid, NULL, NULL);
	address = inet_client_addr(fcinfo);
	if (!fcinfo->isnull)
		strlcpy(buffer, DatumGetCString(DirectFunctionCall1(inet_out, address)), size);
}

/* Who and where this backend is. */
static void
describe_self(FenceRejection *rejection)
{
	Portal		portal = ActivePortal;

	rejection->at = GetCurrentTimestamp();
	rejection->database = MyDatabaseId;
	rejection->role = GetSessionUserId();
	rejection->pid = MyProcPid;
	if (application_name != NULL)
		strlcpy(rejection->application, application_name,
				sizeof(rejection->application));
	client_address(rejection->client, sizeof(rejection->client));
	strlcpy(rejection->command,
			portal != NULL ? GetCommandTagName(portal->commandTag) : "COMMIT",
			sizeof(rejection->command));
}

/*
 * fence_journal_write
 *
 * Keep a refusal. The caller has filled in what was offered; this adds who
 * offered it.
 */
void
fence_journal_write(FenceRejection *rejection)
{
	FenceShared *shared = fence_shared();

	if (shared == NULL || fence_journal_size == 0)
		return;
	describe_self(rejection);
	LWLockAcquire(&shared->journal_lock, LW_EXCLUSIVE);
	memcpy(&shared->journal[shared->journal_next++ % FENCE_MAX_REJECTIONS],
		   rejection, sizeof(FenceRejection));
	LWLockRelease(&shared->journal_lock);
}

/*
 * fence_journal_read
 *
 * A copy of the refusals, oldest first; NULL without shared memory.
 */
FenceRejection *
fence_journal_read(int *count)
{
	FenceShared *shared = fence_shared();
	FenceRejection *copy;
	uint64		next;

	*count = 0;
	if (shared == NULL)
		return NULL;
	copy = MemoryContextAllocHuge(CurrentMemoryContext,
								  sizeof(FenceRejection) * FENCE_MAX_REJECTIONS);
	LWLockAcquire(&shared->journal_lock, LW_SHARED);
	next = shared->journal_next;
	for (uint64 i = next - Min(next, (uint64) fence_journal_size); i < next; i++)
		memcpy(&copy[(*count)++], &shared->journal[i % FENCE_MAX_REJECTIONS],
			   sizeof(FenceRejection));
	LWLockRelease(&shared->journal_lock);
	return copy;
}
