/*
 * lockfence.h
 *		Words, limits and SQLSTATEs that every file of lockfence shares.
 *
 * resource		what is protected: text, compared byte by byte, 1 to 512 bytes
 * token		fencing token (generation): bigint > 0, rising for a resource
 * holder		who asks: text chosen by the worker, has no order
 * fence		the highest token known for a resource, a row of lockfence.fence
 * lease		the time-limited right to hold a resource; it coordinates and never
 *				decides a write
 * admission	this transaction has shown a valid token for a resource
 * raise		any change of a fence to a higher token
 *
 * Rule: this file holds no code and knows no other file of lockfence.
 */
#ifndef LOCKFENCE_H
#define LOCKFENCE_H

#include "postgres.h"

#define FENCE_MAX_RESOURCE	512 /* bytes */
#define FENCE_MAX_HOLDER	512 /* bytes */
#define FENCE_MAX_OPERATION	512 /* bytes */
#define FENCE_MAX_REASON	1024	/* bytes */

/* Schema of the extension's tables and views; the functions may live anywhere. */
#define LOCKFENCE_SCHEMA	"lockfence"

#define ERRCODE_STALE_FENCING_TOKEN		MAKE_SQLSTATE('L', 'F', '0', '0', '1')
#define ERRCODE_MISSING_FENCING_TOKEN	MAKE_SQLSTATE('L', 'F', '0', '0', '2')
#define ERRCODE_UNISSUED_FENCING_TOKEN	MAKE_SQLSTATE('L', 'F', '0', '0', '3')
#define ERRCODE_FENCING_TOKEN_CONFLICT	MAKE_SQLSTATE('L', 'F', '0', '0', '4')
#define ERRCODE_LEASE_AUTHORITY_ERROR	MAKE_SQLSTATE('L', 'F', '0', '0', '5')

/*
 * A string with its length in bytes. Database text has no NUL inside; whether
 * "data" ends with one is said where the string comes from.
 */
typedef struct FenceString
{
	const char *data;			/* NULL means unknown or not given */
	int			len;
} FenceString;

static inline bool
fence_string_equal(FenceString a, FenceString b)
{
	return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

/* Byte order, the shorter first: the order in which several fences are locked. */
static inline int
fence_string_compare(FenceString a, FenceString b)
{
	int			result = memcmp(a.data, b.data, Min(a.len, b.len));

	return result != 0 ? result : a.len - b.len;
}

#endif							/* LOCKFENCE_H */
