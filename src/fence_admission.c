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
#include "port/pg_bswap.h"
#include "utils/memutils.h"

#include "fence_admission.h"

/* The value that an admission had before a subtransaction changed it. */
typedef struct AdmissionUndo
{
	Admission  *admission;
	int64		token;
	FullTransactionId raised_by;
	bool		by_right;
	int			nest;
	int			depth;			/* whose rollback restores it */
	struct AdmissionUndo *next;
} AdmissionUndo;

/*
 * The table of admissions. Entries never move; slots hold their numbers and
 * hashes, so that a lookup goes to memory twice, and once if the slots fit
 * into the processor's cache.
 */
typedef struct AdmissionSlot
{
	uint32		hash;
	uint32		entry;			/* 0: free; see entry_at() */
} AdmissionSlot;

/* Entries are numbered by where they are: block, and MAXALIGN unit within. */
#define BLOCK_SIZE		((Size) 32 * 1024)
#define BLOCK_UNITS		((uint32) (BLOCK_SIZE / MAXIMUM_ALIGNOF))
#define FIRST_BLOCK		((Size) 1024)
#define CACHE_LINE		64
#define FIRST_SLOTS		16
#define FIRST_BLOCKS	16

StaticAssertDecl(FIRST_BLOCK >= 2 * CACHE_LINE +
				 MAXALIGN(offsetof(Admission, resource) + FENCE_MAX_RESOURCE),
				 "the first block must hold the longest entry");

uint64		fence_session_epoch = 1;

/* All of these are about the current transaction; NULL without admissions. */
static MemoryContext session_context = NULL;
static AdmissionUndo *session_undo = NULL;

static AdmissionSlot *slots = NULL;
static uint32 nslots = 0;		/* a power of two */
static uint32 nentries = 0;
static uint32 newest = 0;		/* entry */

static char **blocks = NULL;
static uint32 nblocks = 0;
static uint32 max_blocks = 0;
static Size block_used = 0;		/* of the last one */
static Size block_size = 0;

/* Set up for the first admission of a transaction. */
static void
begin_admissions(void)
{
	session_context = AllocSetContextCreate(TopTransactionContext,
											"lockfence admissions",
											ALLOCSET_DEFAULT_SIZES);
	nblocks = 0;
	block_used = block_size = 0;
	max_blocks = FIRST_BLOCKS;
	blocks = MemoryContextAlloc(session_context, sizeof(char *) * max_blocks);
	nslots = FIRST_SLOTS;
	slots = MemoryContextAllocZero(session_context,
								   sizeof(AdmissionSlot) * nslots);
}

static inline uint32
admission_hash(FenceString resource, bool observed)
{
	return hash_bytes((const unsigned char *) resource.data,
					  resource.len) ^ (uint32) observed;
}

static inline Admission *
entry_at(uint32 entry)
{
	return (Admission *) (blocks[entry / BLOCK_UNITS] +
						  entry % BLOCK_UNITS * MAXIMUM_ALIGNOF);
}

/* The slot of a resource, or the free one where it belongs. */
static inline AdmissionSlot *
find_slot(FenceString resource, bool observed, uint32 hash)
{
	for (uint32 i = hash & (nslots - 1);; i = (i + 1) & (nslots - 1))
	{
		AdmissionSlot *slot = &slots[i];
		Admission  *admission;

		if (slot->entry == 0)
			return slot;
		if (slot->hash != hash)
			continue;
		admission = entry_at(slot->entry);
		if (admission->len == resource.len && admission->observed == observed &&
			memcmp(admission->resource, resource.data, resource.len) == 0)
			return slot;
	}
}

/* The entry of a resource, also one that was taken back; NULL if none. */
static Admission *
find_entry(FenceString resource, bool observed)
{
	AdmissionSlot *slot;

	if (session_context == NULL)
		return NULL;
	slot = find_slot(resource, observed, admission_hash(resource, observed));
	return slot->entry == 0 ? NULL : entry_at(slot->entry);
}

/* Double the slots. */
static void
grow_slots(void)
{
	AdmissionSlot *old = slots;
	uint32		old_count = nslots;
	AdmissionSlot *grown;

	if (nslots > PG_UINT32_MAX / 2)
		elog(ERROR, "too many admissions");
	grown = MemoryContextAllocExtended(session_context,
									   sizeof(AdmissionSlot) * (Size) nslots * 2,
									   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	slots = grown;
	nslots *= 2;
	for (uint32 i = 0; i < old_count; i++)
	{
		uint32		j = old[i].hash & (nslots - 1);

		if (old[i].entry == 0)
			continue;
		while (slots[j].entry != 0)
			j = (j + 1) & (nslots - 1);
		slots[j] = old[i];
	}
	pfree(old);
}

/* Begin a new block of entries. */
static void
add_block(void)
{
	Size		size = nblocks == 0 ? FIRST_BLOCK : BLOCK_SIZE;

	if (nblocks == max_blocks)
	{
		if (nblocks >= PG_UINT32_MAX / BLOCK_UNITS)
			elog(ERROR, "too many admissions");
		blocks = repalloc_huge(blocks, sizeof(char *) * (Size) max_blocks * 2);
		max_blocks *= 2;
	}
	blocks[nblocks] = MemoryContextAlloc(session_context, size);
	nblocks++;
	block_size = size;
	block_used = MAXIMUM_ALIGNOF;	/* no entry has number 0 */
}

/*
 * Room for an entry, by its number. Entries are packed, without the allocator's
 * header and rounding: a transaction may admit a million resources. But one
 * that fits into a line of the processor's cache does not cross two.
 */
static uint32
allocate_entry(Size size)
{
	Size		at;
	Size		left;

	size = MAXALIGN(size);
	if (nblocks == 0)
		add_block();
	for (;;)
	{
		char	   *place = blocks[nblocks - 1] + block_used;

		left = CACHE_LINE - (uintptr_t) place % CACHE_LINE;
		at = block_used;
		if (left < size && size <= CACHE_LINE)
			at += left;
		if (at + size <= block_size)
			break;
		add_block();
	}
	block_used = at + size;
	return (nblocks - 1) * BLOCK_UNITS + at / MAXIMUM_ALIGNOF;
}

/* Make an entry that says "not admitted" yet. */
static Admission *
make_entry(FenceString resource, bool observed, Oid target)
{
	uint32		hash = admission_hash(resource, observed);
	AdmissionSlot *slot;
	uint32		entry;
	Admission  *admission;

	if (nentries >= nslots / 4 * 3)
		grow_slots();
	entry = allocate_entry(offsetof(Admission, resource) + resource.len);
	admission = entry_at(entry);
	admission->token = 0;
	admission->target = target;
	admission->nest = 0;
	admission->observed = observed;
	admission->by_right = false;
	admission->len = resource.len;
	admission->earlier = newest;
	memcpy(admission->resource, resource.data, resource.len);

	slot = find_slot(resource, observed, hash);
	Assert(slot->entry == 0);
	slot->hash = hash;
	slot->entry = entry;
	newest = entry;
	nentries++;
	return admission;
}

/* fence_admission_any: has this transaction been admitted for anything? */
bool
fence_admission_any(void)
{
	return session_context != NULL;
}

/* fence_admission_count: rises with each further resource */
uint32
fence_admission_count(void)
{
	return nentries;
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
 * the (sub)transaction is rolled back. Who had the right once has given it to
 * the admission. May run out of memory, and then has changed nothing that
 * counts.
 */
void
fence_admission_record(FenceString resource, bool observed, int64 token,
					   Oid target, bool by_right,
					   FullTransactionId raised_by,
					   const ItemPointerData *fence)
{
	int			depth = GetCurrentTransactionNestLevel();
	Admission  *admission;

	if (session_context == NULL)
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
		undo->raised_by = admission->raised_by;
		undo->by_right = admission->by_right;
		undo->nest = admission->nest;
		undo->depth = depth;
		undo->next = session_undo;
		session_undo = undo;
	}
	if (admission->token == 0)
		admission->target = target;
	else if (admission->token != token)
		fence_session_epoch++;
	admission->by_right = by_right ||
		(admission->token != 0 && admission->by_right);
	admission->token = token;
	admission->raised_by = raised_by;
	admission->nest = depth;
	admission->fence = *fence;
}

static int
compare_admissions(const void *a, const void *b)
{
	const FenceAdmitted *left = a;
	const FenceAdmitted *right = b;

	if (left->leading != right->leading)
		return left->leading < right->leading ? -1 : 1;
	return fence_string_compare(fence_admission_resource(left->admission),
								fence_admission_resource(right->admission));
}

/* How many bytes at the beginning all resources have in common. */
static int
common_length(void)
{
	const Admission *first = entry_at(newest);
	int			common = first->len;

	for (uint32 entry = first->earlier; entry != 0;)
	{
		const Admission *admission = entry_at(entry);
		int			i = 0;

		common = Min(common, admission->len);
		while (i < common && admission->resource[i] == first->resource[i])
			i++;
		common = i;
		entry = admission->earlier;
	}
	return common;
}

/* The bytes from "start" on as a number in the same order, padded with zeros. */
static uint64
leading_bytes(const Admission *admission, int start)
{
	uint64		leading = 0;

	memcpy(&leading, admission->resource + start,
		   Min(sizeof(leading), admission->len - start));
	return pg_ntoh64(leading);
}

/*
 * fence_admission_sorted
 *
 * All admissions in byte order of their resources, for the commit check. The
 * array goes with the transaction. Most comparisons need only the bytes after
 * what all resources have in common, which saves looks at memory.
 */
FenceAdmitted *
fence_admission_sorted(uint64 *count)
{
	int			common = common_length();
	FenceAdmitted *sorted;
	FenceAdmitted *first;

	/* From the end, so that what came in order needs no sorting. */
	sorted = MemoryContextAllocHuge(session_context,
									sizeof(FenceAdmitted) * (Size) nentries);
	first = sorted + nentries;
	for (uint32 entry = newest; entry != 0;)
	{
		Admission  *admission = entry_at(entry);

		entry = admission->earlier;
		if (admission->token == 0)
			continue;
		first--;
		first->admission = admission;
		first->leading = leading_bytes(admission, common);
	}
	*count = sorted + nentries - first;
	qsort(first, *count, sizeof(FenceAdmitted), compare_admissions);
	return first;
}

/* fence_admission_forget: the transaction has ended. */
void
fence_admission_forget(void)
{
	session_context = NULL;
	session_undo = NULL;
	slots = NULL;
	blocks = NULL;
	nentries = newest = 0;
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
			undo->admission->raised_by = undo->raised_by;
			undo->admission->by_right = undo->by_right;
			undo->admission->nest = undo->nest;
			session_undo = undo->next;
			pfree(undo);
		}
		fence_session_epoch++;
	}
}
