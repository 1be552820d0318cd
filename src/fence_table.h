/*
 * fence_table.h
 *		Reading, locking and writing rows of lockfence.fence.
 */
#ifndef FENCE_TABLE_H
#define FENCE_TABLE_H

#include "nodes/lockoptions.h"
#include "storage/lockdefs.h"

#include "fence_blocker.h"
#include "fence_row.h"

typedef enum FenceLock
{
	FENCE_LOCKED,
	FENCE_NOT_FOUND,			/* see inserter */
	FENCE_CHANGED,				/* a newer version has been committed */
	FENCE_WOULD_BLOCK			/* see fence_table_blocker() */
} FenceLock;

typedef struct FenceTable FenceTable;

extern FenceTable *fence_table_open(LOCKMODE lockmode);
extern void fence_table_close(FenceTable *table);

extern bool fence_table_read(FenceTable *table, FenceString resource,
							 FenceRow *row);
extern bool fence_table_read_at(FenceTable *table, FenceString resource,
								const ItemPointerData *where, FenceRow *row);
extern FenceLock fence_table_lock(FenceTable *table, FenceString resource,
								  LockTupleMode mode, FenceRow *row);
extern FenceLock fence_table_lock_seen(FenceTable *table, const FenceRow *row,
									   LockTupleMode mode);
extern void fence_table_blocker(FenceTable *table, const FenceRow *row,
								FenceBlocker *blocker);

extern void fence_table_scan(FenceTable *table, FenceString prefix);
extern bool fence_table_next(FenceTable *table, FenceString prefix,
							 FenceString *resource, FenceRow *row);
extern void fence_table_delete(FenceTable *table, const FenceRow *row);

extern bool fence_table_lock_absent(FenceTable *table, FenceString resource);
extern void fence_table_unlock_absent(FenceTable *table, FenceString resource);
extern void fence_table_insert(FenceTable *table, FenceString resource,
							   FenceRow *row);
extern void fence_table_update(FenceTable *table, FenceString resource,
							   FenceRow *row);

#endif							/* FENCE_TABLE_H */
