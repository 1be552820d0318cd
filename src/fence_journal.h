/*
 * fence_journal.h
 *		The last refusals, kept over the rollback that each causes.
 */
#ifndef FENCE_JOURNAL_H
#define FENCE_JOURNAL_H

#include "fence_shared.h"

extern int	fence_journal_size;

extern void fence_journal_write(FenceRejection *rejection);
extern FenceRejection *fence_journal_read(int *count);
extern void fence_journal_init(void);

#endif							/* FENCE_JOURNAL_H */
