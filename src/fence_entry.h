/*
 * fence_entry.h
 *		What every SQL function that writes begins with.
 */
#ifndef FENCE_ENTRY_H
#define FENCE_ENTRY_H

#include "lockfence.h"

extern void fence_entry_writes(const char *command);

#endif							/* FENCE_ENTRY_H */
