/*
 * fence_token.h
 *		The database-wide source of issued tokens.
 */
#ifndef FENCE_TOKEN_H
#define FENCE_TOKEN_H

#include "lockfence.h"

/*
 * How far issuing moves at least when tokens may have been issued that it
 * forgot, and by chance up to half as far again.
 */
#define FENCE_EPOCH_JUMP	(INT64CONST(1) << 40)

/* Nobody can move issuing to this or beyond; what notices a restore still can. */
#define FENCE_EPOCH_LIMIT	(INT64CONST(1) << 52)

extern int64 fence_token_mint(void);
extern void fence_token_report_behind(int64 token, int64 fence);
extern void fence_token_advance(int64 past);
extern int64 fence_token_new_epoch(int64 above);

#endif							/* FENCE_TOKEN_H */
