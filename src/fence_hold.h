/*
 * fence_hold.h
 *		Whether this transaction holds a lock on any fence.
 */
#ifndef FENCE_HOLD_H
#define FENCE_HOLD_H

#include "lockfence.h"

extern void fence_hold_note(void);
extern bool fence_hold_any(void);

#endif							/* FENCE_HOLD_H */
