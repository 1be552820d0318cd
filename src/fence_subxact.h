/*
 * fence_subxact.h
 *		Work in a subtransaction that may be given up.
 */
#ifndef FENCE_SUBXACT_H
#define FENCE_SUBXACT_H

#include "lockfence.h"

extern ErrorData *fence_subxact_run(bool (*work) (void *arg), void *arg);

#endif							/* FENCE_SUBXACT_H */
