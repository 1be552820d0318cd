/*
 * fence_hint.c
 *		Where this backend has seen fences, in this transaction or before.
 *
 * A worker returns to the same few resources: it acquires, writes, renews and
 * releases. A hint saves the search of the index.
 *
 * Rule: a hint proves nothing, and nothing ever corrects one. The row may have
 * moved or gone, the table may have shrunk or been replaced: whoever follows a
 * hint checks that the place exists, and that it holds the live version of
 * this very resource.
 */
#include "postgres.h"

#include "common/hashfn.h"

#include "fence_hint.h"

#define HINTS	1024			/* a power of two */

typedef struct FenceHint
{
	uint32		hash;
	ItemPointerData tid;		/* invalid: none */
} FenceHint;

static FenceHint hints[HINTS];

static inline uint32
resource_hash(FenceString resource)
{
	return hash_bytes((const unsigned char *) resource.data, resource.len);
}

/* fence_hint_find: where the resource's fence may be */
bool
fence_hint_find(FenceString resource, ItemPointer tid)
{
	uint32		hash = resource_hash(resource);
	const FenceHint *hint = &hints[hash % HINTS];

	if (hint->hash != hash || !ItemPointerIsValid(&hint->tid))
		return false;
	*tid = hint->tid;
	return true;
}

/* fence_hint_set: it was seen here */
void
fence_hint_set(FenceString resource, const ItemPointerData *tid)
{
	uint32		hash = resource_hash(resource);
	FenceHint  *hint = &hints[hash % HINTS];

	hint->hash = hash;
	hint->tid = *tid;
}
