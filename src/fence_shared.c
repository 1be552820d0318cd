/*
 * fence_shared.c
 *		Finds lockfence's shared memory.
 *
 * Rule: nobody depends on it. From PostgreSQL 17 on a backend attaches it when
 * it first needs it; before, it is there if the library was preloaded. If it
 * cannot be had, that is logged once by the backend, and everything works but
 * the views.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "compat.h"
#include "fence_shared.h"
#include "fence_subxact.h"

#define SHARED_NAME		"lockfence 1"	/* the layout's version */
#define TRANCHE_NAME	"Lockfence"

static FenceShared *shared = NULL;
static bool tried = false;
static void (*previous_request) (void) = NULL;
static void (*previous_startup) (void) = NULL;

/* Called once, by whoever creates the memory. */
static void
init_shared(void *memory)
{
	FenceShared *new = memory;

	memset(new, 0, sizeof(FenceShared));
	new->tranche = new_tranche_compat(TRANCHE_NAME);
	LWLockInitialize(&new->databases_lock, new->tranche);
	pg_atomic_init_u64(&new->journal_next, 0);
	for (int i = 0; i < FENCE_MAX_REJECTIONS; i++)
		pg_atomic_init_u64(&new->journal[i].state, 0);
	for (int i = 0; i < FENCE_MAX_DATABASES; i++)
	{
		pg_atomic_init_u64(&new->databases[i].since, 0);
		for (int s = 0; s < FENCE_SHARDS; s++)
			for (int c = 0; c < FENCE_COUNTERS; c++)
				pg_atomic_init_u64(&new->databases[i].shards[s].counters[c], 0);
	}
	for (int i = 0; i < FENCE_MAX_ACTIVITY; i++)
	{
		pg_atomic_init_u32(&new->activity[i].owner, 0);
		pg_atomic_init_u32(&new->activity[i].changes, 0);
	}
	for (int i = 0; i < FENCE_WAIT_CHANNELS; i++)
		ConditionVariableInit(&new->channels[i]);
}

static void
request_memory(void)
{
	if (previous_request)
		previous_request();
	request_shared_compat(sizeof(FenceShared));
}

static void
find_memory(void)
{
	if (previous_startup)
		previous_startup();
	shared = struct_shared_compat(SHARED_NAME, sizeof(FenceShared), init_shared);
}

/*
 * fence_shared_preload
 *
 * Called by _PG_init. Asks for the memory while the server starts, where it
 * cannot be had later.
 */
void
fence_shared_preload(void)
{
	if (process_shared_preload_libraries_in_progress && !LOCKFENCE_NAMED_SEGMENTS)
		hook_shared_compat(request_memory, &previous_request,
						   find_memory, &previous_startup);
}

static bool
attach(void *arg)
{
	shared = named_segment_compat(SHARED_NAME, sizeof(FenceShared), init_shared);
	return true;
}

/* Attach in a subtransaction: what goes wrong there must not fail the caller. */
static void
try_to_attach(void)
{
	ErrorData  *error = fence_subxact_run(attach, NULL);

	if (error == NULL)
		return;
	shared = NULL;
	if (error->sqlerrcode == ERRCODE_QUERY_CANCELED)
		ReThrowError(error);
	ereport(LOG,
			(errmsg("lockfence statistics are not available in this session"),
			 errdetail_internal("%s", error->message)));
	FreeErrorData(error);
}

/*
 * fence_shared
 *
 * The shared memory, or NULL if there is none. The first call of a backend is
 * made in a transaction that can still fail, not from a callback at its end;
 * later calls cost a comparison.
 */
FenceShared *
fence_shared(void)
{
	if (unlikely(!tried))
	{
		if (LOCKFENCE_NAMED_SEGMENTS)
			try_to_attach();
		if (shared != NULL)
			register_tranche_compat(shared->tranche, TRANCHE_NAME);
		tried = true;
	}
	return shared;
}

/* fence_shared_needed: likewise, but 55000 if there is none */
FenceShared *
fence_shared_needed(void)
{
	FenceShared *found = fence_shared();

	if (found == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("lockfence has no shared memory in this session"),
				 LOCKFENCE_NAMED_SEGMENTS ?
				 errhint("The server log says why.") :
				 errhint("Add \"lockfence\" to shared_preload_libraries and restart the server. Tokens are enforced without it.")));
	return found;
}
