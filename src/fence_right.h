/*
 * fence_right.h
 *		What may be done to a fence, and learnt of it, by writing a row.
 */
#ifndef FENCE_RIGHT_H
#define FENCE_RIGHT_H

#include "lockfence.h"

extern bool fence_right_through(Oid guard, Oid target);
extern void fence_right_to_raise(Oid guard, Oid target);
extern void fence_right_refuse_prepare(Oid target);

#endif							/* FENCE_RIGHT_H */
