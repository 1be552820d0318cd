/*
 * fence_memo.c
 *		What rows of one table the transaction is known to be admitted for.
 *
 * A row whose resource is made of a few numbers finds its admission here with
 * one look at memory; building the resource and looking it up takes several,
 * and those are what a load in random order waits for.
 *
 * Rules: this is a cache, and may forget anything at any time. It holds for
 * one epoch of the admissions only and ends with the transaction, whose memory
 * it is in. It never grows beyond MAX_SETS.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "fence_memo.h"

#define FIRST_SETS	64
#define MAX_SETS	(32 * 1024) /* 2 MB */

#define SET_SIZE	(FENCE_MEMO_WAYS * sizeof(FenceMemoPair))

/* An empty table of that many sets. */
static void
allocate_sets(FenceMemo *memo, uint32 nsets)
{
	FenceMemoPair *memory = MemoryContextAllocZero(memo->context,
												   (nsets + 1) * SET_SIZE);

	memo->memory = memory;
	memo->pairs = (FenceMemoPair *) TYPEALIGN(SET_SIZE, memory);
	memo->nsets = nsets;
	memo->used = 0;
	memo->shift = 64;
	while (nsets > 1)
	{
		memo->shift--;
		nsets /= 2;
	}
}

/* Memory has been taken away. */
static void
forget(void *arg)
{
	FenceMemo  *memo = arg;

	*memo->owner = NULL;
}

static FenceMemo *
create(FenceMemo **owner)
{
	MemoryContext context = AllocSetContextCreate(TopTransactionContext,
												  "lockfence memo",
												  ALLOCSET_SMALL_SIZES);
	FenceMemo  *memo = MemoryContextAlloc(context, sizeof(FenceMemo));

	memo->context = context;
	memo->epoch = 0;			/* none */
	allocate_sets(memo, FIRST_SETS);
	memo->owner = owner;
	memo->callback.func = forget;
	memo->callback.arg = memo;
	MemoryContextRegisterResetCallback(context, &memo->callback);
	*owner = memo;
	return memo;
}

/* Put a pair into its set, in place of another one if it is full. */
static void
put(FenceMemo *memo, uint64 number, int64 token)
{
	FenceMemoPair *set = fence_memo_set(memo, number);
	int			way;

	for (way = 0; way < FENCE_MEMO_WAYS; way++)
		if (set[way].token == 0 || set[way].number == number)
			break;
	if (way == FENCE_MEMO_WAYS)
		way = number % FENCE_MEMO_WAYS;
	else if (set[way].token == 0)
		memo->used++;
	set[way].number = number;
	set[way].token = token;
}

static void
grow(FenceMemo *memo)
{
	FenceMemoPair *memory = memo->memory;
	FenceMemoPair *pairs = memo->pairs;
	uint32		npairs = memo->nsets * FENCE_MEMO_WAYS;

	allocate_sets(memo, memo->nsets * 2);
	for (uint32 i = 0; i < npairs; i++)
		if (pairs[i].token != 0)
			put(memo, pairs[i].number, pairs[i].token);
	pfree(memory);
}

/*
 * fence_memo_add
 *
 * Note that rows with this number are admitted with the token, while the epoch
 * lasts.
 */
void
fence_memo_add(FenceMemo **owner, uint64 epoch, uint64 number, int64 token)
{
	FenceMemo  *memo = *owner ? *owner : create(owner);

	if (memo->epoch != epoch)
	{
		FenceMemoPair *memory = memo->memory;

		if (memo->used > 0)
		{
			allocate_sets(memo, FIRST_SETS);
			pfree(memory);
		}
		memo->epoch = epoch;
	}
	if (memo->used > memo->nsets * FENCE_MEMO_WAYS / 2 && memo->nsets < MAX_SETS)
		grow(memo);
	put(memo, number, token);
}

/* fence_memo_drop: numbers mean something else from now on */
void
fence_memo_drop(FenceMemo **owner)
{
	if (*owner != NULL)
		MemoryContextDelete((*owner)->context);
}
