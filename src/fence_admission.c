/*
 * fence_admission.c
 *		Which tokens this transaction has shown.
 *
 * Rules: nothing here outlives the transaction. Admissions live in a memory
 * context below TopTransactionContext, so an error of any kind frees them, and
 * fence_admission_forget() only drops the pointers. A rolled back
 * subtransaction takes back exactly what it admitted.
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "utils/memutils.h"

#include "fence_admission.h"

/* The value that an admission had before a subtransaction changed it. */
typedef struct AdmissionUndo
{
	Admission  *admission;
	int64		token;
	int			nest;
	int			depth;			/* whose rollback restores it */
	struct AdmissionUndo *next;
} AdmissionUndo;

typedef struct AdmissionSlot
{
	Admission  *admission;
	uint32		hash;
	char		status;			/* used by simplehash */
} AdmissionSlot;

static inline uint32
admission_hash(const Admission *key)
{
	return hash_bytes((const unsigned char *) key->resource.data,
					  key->resource.len) ^ (uint32) key->observed;
}

static inline bool
admission_equal(const Admission *a, const Admission *b)
{
	return a->observed == b->observed &&
		fence_string_equal(a->resource, b->resource);
}

#define SH_PREFIX admissions
#define SH_ELEMENT_TYPE AdmissionSlot
#define SH_KEY_TYPE Admission *
#define SH_KEY admission
#define SH_HASH_KEY(tb, key) admission_hash(key)
#define SH_EQUAL(tb, a, b) admission_equal(a, b)
#define SH_STORE_HASH
#define SH_GET_HASH(tb, slot) ((slot)->hash)
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

uint64		fence_session_epoch = 1;

/* All of these are about the current transaction; NULL without admissions. */
static MemoryContext session_context = NULL;
static admissions_hash *session_table = NULL;
static AdmissionUndo *session_undo = NULL;
static char *session_block = NULL;
static Size session_block_left = 0;

/* Either holds the longest entry. */
#define FIRST_BLOCK	((Size) 1024)
#define NEXT_BLOCK	((Size) 32 * 1024)

/* Set up for the first admission of a transaction. */
static void
begin_admissions(void)
{
	session_context = AllocSetContextCreate(TopTransactionContext,
											"lockfence admissions",
											ALLOCSET_SMALL_SIZES);
	session_table = admissions_create(session_context, 8, NULL);
	Assert(MAXALIGN(sizeof(Admission) + FENCE_MAX_RESOURCE) <= FIRST_BLOCK);
}

/* The entry of a resource, also one that was taken back; NULL if none. */
static Admission *
find_entry(FenceString resource, bool observed)
{
	Admission	key;
	AdmissionSlot *slot;

	if (session_table == NULL)
		return NULL;
	key.resource = resource;
	key.observed = observed;
	slot = admissions_lookup(session_table, &key);
	return slot == NULL ? NULL : slot->admission;
}

/*
 * Memory for one entry. Entries are packed, without the allocator's header and
 * rounding: a transaction may admit a million resources.
 */
static void *
allocate_entry(Size size)
{
	void	   *result;

	size = MAXALIGN(size);
	if (session_block_left < size)
	{
		Size		block = session_block == NULL ? FIRST_BLOCK : NEXT_BLOCK;

		session_block = MemoryContextAlloc(session_context, block);
		session_block_left = block;
	}
	result = session_block;
	session_block += size;
	session_block_left -= size;
	return result;
}

/* Make an entry that says "not admitted" yet. */
static Admission *
make_entry(FenceString resource, bool observed, Oid target)
{
	Admission  *admission = allocate_entry(sizeof(Admission) + resource.len);
	bool		found;

	memcpy(admission + 1, resource.data, resource.len);
	admission->resource.data = (char *) (admission + 1);
	admission->resource.len = resource.len;
	admission->token = 0;
	admission->target = target;
	admission->nest = 0;
	admission->observed = observed;
	admissions_insert(session_table, admission, &found);
	Assert(!found);
	return admission;
}

/* fence_admission_any: has this transaction been admitted for anything? */
bool
fence_admission_any(void)
{
	return session_table != NULL;
}

/* fence_admission_find: the admission of a resource, or NULL. */
Admission *
fence_admission_find(FenceString resource, bool observed)
{
	Admission  *admission = find_entry(resource, observed);

	return admission != NULL && admission->token != 0 ? admission : NULL;
}

/*
 * fence_admission_record
 *
 * Remember that the resource is admitted with the token from here on, until
 * the (sub)transaction is rolled back. May run out of memory, and then has
 * changed nothing that counts.
 */
void
fence_admission_record(FenceString resource, bool observed, int64 token,
					   Oid target, const ItemPointerData *fence)
{
	int			depth = GetCurrentTransactionNestLevel();
	Admission  *admission;

	if (session_table == NULL)
		begin_admissions();
	admission = find_entry(resource, observed);
	if (admission == NULL)
		admission = make_entry(resource, observed, target);

	/* The outermost level needs no way back. */
	if (admission->nest < depth && depth > 1)
	{
		AdmissionUndo *undo = MemoryContextAlloc(session_context,
												 sizeof(AdmissionUndo));

		undo->admission = admission;
		undo->token = admission->token;
		undo->nest = admission->nest;
		undo->depth = depth;
		undo->next = session_undo;
		session_undo = undo;
	}
	if (admission->token != 0 && admission->token != token)
		fence_session_epoch++;
	admission->token = token;
	admission->nest = depth;
	admission->fence = *fence;
}

static int
compare_admissions(const void *a, const void *b)
{
	return fence_string_compare((*(Admission *const *) a)->resource,
								(*(Admission *const *) b)->resource);
}

/*
 * fence_admission_sorted
 *
 * All admissions in byte order of their resources, for the commit check. The
 * array goes with the transaction.
 */
Admission **
fence_admission_sorted(uint64 *count)
{
	admissions_iterator iterator;
	AdmissionSlot *slot;
	Admission **sorted;

	sorted = MemoryContextAllocHuge(session_context,
									sizeof(Admission *) * (Size) session_table->members);
	*count = 0;
	admissions_start_iterate(session_table, &iterator);
	while ((slot = admissions_iterate(session_table, &iterator)) != NULL)
		if (slot->admission->token != 0)
			sorted[(*count)++] = slot->admission;
	qsort(sorted, *count, sizeof(Admission *), compare_admissions);
	return sorted;
}

/* fence_admission_forget: the transaction has ended. */
void
fence_admission_forget(void)
{
	session_context = NULL;
	session_table = NULL;
	session_undo = NULL;
	session_block = NULL;
	session_block_left = 0;
	fence_session_epoch++;
}

/*
 * fence_admission_end_subxact
 *
 * A subtransaction that commits hands its changes to its parent; one that
 * aborts takes them back. Must not fail.
 */
void
fence_admission_end_subxact(SubXactEvent event)
{
	int			depth = GetCurrentTransactionNestLevel();

	if (session_undo == NULL)
		return;

	if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		for (AdmissionUndo *undo = session_undo;
			 undo != NULL && undo->depth == depth;
			 undo = undo->next)
		{
			undo->depth = depth - 1;
			undo->admission->nest = depth - 1;
		}
		while (session_undo != NULL && session_undo->depth == 1)
		{
			AdmissionUndo *undo = session_undo;

			session_undo = undo->next;
			pfree(undo);
		}
	}
	else if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		while (session_undo != NULL && session_undo->depth >= depth)
		{
			AdmissionUndo *undo = session_undo;

			undo->admission->token = undo->token;
			undo->admission->nest = undo->nest;
			session_undo = undo->next;
			pfree(undo);
		}
		fence_session_epoch++;
	}
}
