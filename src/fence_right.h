/*
 * fence_right.h
 *		Who may raise a fence by writing a row.
 */
#ifndef FENCE_RIGHT_H
#define FENCE_RIGHT_H

#include "lockfence.h"

extern void fence_right_to_raise(Oid guard, Oid target);

#endif							/* FENCE_RIGHT_H */
