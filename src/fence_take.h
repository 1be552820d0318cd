/*
 * fence_take.h
 *		Taking the lease of one resource, if it is free.
 */
#ifndef FENCE_TAKE_H
#define FENCE_TAKE_H

#include "fence_wait.h"

typedef struct FenceClaim
{
	FenceString resource;
	FenceString holder;
	int64		ttl;			/* microseconds */
	const char *authority;

	int64		token;			/* minted for several resources; 0: mint one */
} FenceClaim;

typedef enum FenceTaken
{
	FENCE_GRANTED,
	FENCE_HELD,
	FENCE_LOOK_AGAIN			/* the row has just changed */
} FenceTaken;

typedef enum FenceHow
{
	FENCE_NEW,
	FENCE_TAKEOVER,				/* the last lease ended without a release */
	FENCE_AGAIN					/* this holder's live lease, same token */
} FenceHow;

typedef struct FenceGrant
{
	FenceHow	how;			/* looked at or granted */
	FenceRow	row;			/* granted: as it is now; held: as it was read */
	FenceObstacle obstacle;		/* held */
} FenceGrant;

extern FenceTaken fence_take_look(FenceTable *table, const FenceClaim *claim,
								  FenceGrant *grant);
extern FenceTaken fence_take_lock(FenceTable *table, FenceGrant *grant);
extern FenceTaken fence_take_write(FenceTable *table, const FenceClaim *claim,
								   FenceGrant *grant);

#endif							/* FENCE_TAKE_H */
