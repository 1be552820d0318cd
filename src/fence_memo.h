/*
 * fence_memo.h
 *		What rows of one table the transaction is known to be admitted for.
 */
#ifndef FENCE_MEMO_H
#define FENCE_MEMO_H

#include "utils/palloc.h"

#include "lockfence.h"

/* A number that stands for a resource, and the token it is admitted with. */
typedef struct FenceMemoPair
{
	uint64		number;
	int64		token;			/* 0: free */
} FenceMemoPair;

/* One line of the processor's cache. */
#define FENCE_MEMO_WAYS	4

typedef struct FenceMemo
{
	struct FenceMemo **owner;	/* NULL is put there when memory goes */
	MemoryContext context;
	MemoryContextCallback callback;
	uint64		epoch;			/* of the admissions, see fence_session_epoch */
	int			shift;			/* 64 - log2 of the number of sets */
	uint32		nsets;
	uint32		used;
	FenceMemoPair *memory;
	FenceMemoPair *pairs;		/* the same, aligned */
} FenceMemo;

static inline FenceMemoPair *
fence_memo_set(const FenceMemo *memo, uint64 number)
{
	return memo->pairs + FENCE_MEMO_WAYS *
		((number * UINT64CONST(0x9E3779B97F4A7C15)) >> memo->shift);
}

/* fence_memo_find: the token, or 0 */
static inline int64
fence_memo_find(const FenceMemo *memo, uint64 epoch, uint64 number)
{
	const FenceMemoPair *set = fence_memo_set(memo, number);

	if (memo->epoch != epoch)
		return 0;
	for (int i = 0; i < FENCE_MEMO_WAYS; i++)
		if (set[i].number == number)
			return set[i].token;
	return 0;
}

extern void fence_memo_add(FenceMemo **owner, uint64 epoch, uint64 number,
						   int64 token);
extern void fence_memo_drop(FenceMemo **owner);

#endif							/* FENCE_MEMO_H */
