/*
 * fence_hint.h
 *		Where this backend has seen fences.
 */
#ifndef FENCE_HINT_H
#define FENCE_HINT_H

#include "storage/itemptr.h"

#include "lockfence.h"

extern bool fence_hint_find(FenceString resource, ItemPointer tid);
extern void fence_hint_set(FenceString resource, const ItemPointerData *tid);

#endif							/* FENCE_HINT_H */
