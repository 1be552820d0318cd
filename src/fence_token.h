/*
 * fence_token.h
 *		The database-wide source of issued tokens.
 */
#ifndef FENCE_TOKEN_H
#define FENCE_TOKEN_H

#include "lockfence.h"

/* Tokens above this are not adopted, so that issuing has room to go on. */
#define FENCE_ADOPT_LIMIT	(INT64CONST(1) << 52)

extern int64 fence_token_mint(int64 above);
extern void fence_token_advance(int64 past);

#endif							/* FENCE_TOKEN_H */
