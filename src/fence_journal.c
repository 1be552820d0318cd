/*
 * fence_journal.c
 *		The last refusals, kept over the rollback that each causes.
 *
 * Rules: nobody waits for anybody, since workers that are refused may try again
 * at full speed. Each refusal has a number, and the number a place in a ring.
 * The state of a place is twice the number of its refusal plus 2, and one more
 * while that is being written. A place that somebody is writing is passed over,
 * by writers (who take another number) and by readers.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "tcop/cmdtag.h"
#include "tcop/pquery.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/portal.h"
#include "utils/timestamp.h"

#include "debug_point.h"
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

/* A place to write to, and the state that it gets afterwards. */
static FenceJournalPlace *
take_place(FenceShared *shared, uint64 *state)
{
	for (;;)
	{
		uint64		number = pg_atomic_fetch_add_u64(&shared->journal_next, 1);
		FenceJournalPlace *place = &shared->journal[number % FENCE_MAX_REJECTIONS];
		uint64		before = pg_atomic_read_u64(&place->state);

		*state = 2 * number + 2;
		if (before % 2 == 0 && before < *state &&
			pg_atomic_compare_exchange_u64(&place->state, &before, *state + 1))
			return place;
	}
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
	FenceJournalPlace *place;
	uint64		state;

	if (shared == NULL || fence_journal_size == 0)
		return;
	describe_self(rejection);
	place = take_place(shared, &state);
	memcpy(&place->rejection, rejection, sizeof(FenceRejection));
	DEBUG_POINT("journal-write");
	pg_write_barrier();
	pg_atomic_write_u64(&place->state, state);
}

/* A refusal that was read, with the state of its place. */
typedef struct NumberedRejection
{
	uint64		state;
	FenceRejection rejection;
} NumberedRejection;

static int
compare_states(const void *a, const void *b)
{
	uint64		x = ((const NumberedRejection *) a)->state;
	uint64		y = ((const NumberedRejection *) b)->state;

	return x < y ? -1 : x > y;
}

/* Copy one place; false if nothing is there, or it is being written. */
static bool
read_place(FenceJournalPlace *place, NumberedRejection *copy)
{
	copy->state = pg_atomic_read_u64(&place->state);
	if (copy->state == 0 || copy->state % 2 != 0)
		return false;
	pg_read_barrier();
	memcpy(&copy->rejection, &place->rejection, sizeof(FenceRejection));
	pg_read_barrier();
	return pg_atomic_read_u64(&place->state) == copy->state;
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
	NumberedRejection *found;
	FenceRejection *result;
	int			nfound = 0;

	*count = 0;
	if (shared == NULL)
		return NULL;
	found = palloc(sizeof(NumberedRejection) * FENCE_MAX_REJECTIONS);
	for (int i = 0; i < FENCE_MAX_REJECTIONS; i++)
		if (read_place(&shared->journal[i], &found[nfound]))
			nfound++;
	qsort(found, nfound, sizeof(NumberedRejection), compare_states);

	*count = Min(nfound, fence_journal_size);
	result = palloc(sizeof(FenceRejection) * Max(*count, 1));
	for (int i = 0; i < *count; i++)
		memcpy(&result[i], &found[nfound - *count + i].rejection,
			   sizeof(FenceRejection));
	pfree(found);
	return result;
}
