/*
 * fence_operation.h
 *		Operations that were accepted once.
 */
#ifndef FENCE_OPERATION_H
#define FENCE_OPERATION_H

#include "datatype/timestamp.h"

#include "lockfence.h"

extern bool fence_operation_accept(FenceString resource, FenceString operation,
								   int64 token, FenceString holder);
extern int64 fence_operation_prune(FenceString prefix, TimestampTz before);

#endif							/* FENCE_OPERATION_H */
