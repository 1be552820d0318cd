/*
 * fence_wakeup.h
 *		Telling those who wait for a resource that it may be free.
 */
#ifndef FENCE_WAKEUP_H
#define FENCE_WAKEUP_H

#include "storage/condition_variable.h"

#include "lockfence.h"

extern ConditionVariable *fence_wakeup_channel(FenceString resource);
extern void fence_wakeup_at_end(FenceString resource);

#endif							/* FENCE_WAKEUP_H */
