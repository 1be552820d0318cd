/*
 * fence_bypass.h
 *		Tables that this transaction may write unguarded.
 */
#ifndef FENCE_BYPASS_H
#define FENCE_BYPASS_H

#include "lockfence.h"

/* False in nearly every transaction: a guard need not ask further. */
extern bool fence_bypass_any;

extern bool fence_bypass_covers(Oid relid);
extern void fence_bypass_add(Oid relid);

#endif							/* FENCE_BYPASS_H */
