/*
 * fence_generation.h
 *		Starting a new generation of a resource that PostgreSQL issues.
 */
#ifndef FENCE_GENERATION_H
#define FENCE_GENERATION_H

#include "fence_table.h"

extern void fence_generation_refuse_external(FenceString resource,
											 const FenceRow *row);
extern bool fence_generation_rises(FenceString resource, const FenceRow *row,
								   int64 token);
extern int64 fence_generation_mint(const FenceString *resources,
								   const FenceRow *const *rows, int count);
extern void fence_generation_start(FenceTable *table, FenceString resource,
								   FenceRow *row, FenceString holder,
								   const char *authority, int64 ttl);
extern void fence_generation_write(FenceTable *table, FenceString resource,
								   FenceRow *row, int64 token,
								   FenceString holder, const char *authority,
								   int64 ttl);

#endif							/* FENCE_GENERATION_H */
