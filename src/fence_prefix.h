/*
 * fence_prefix.h
 *		Rules for resources that have no fence, by prefix.
 */
#ifndef FENCE_PREFIX_H
#define FENCE_PREFIX_H

#include "fence_rule.h"

extern void fence_prefix_lookup(FenceString resource, FenceState *state);
extern void fence_prefix_lock(void);
extern void fence_prefix_set_rule(FenceString prefix, bool accept);
extern void fence_prefix_raise_floor(FenceString prefix, int64 floor);

#endif							/* FENCE_PREFIX_H */
