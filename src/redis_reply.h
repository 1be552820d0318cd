/*
 * redis_reply.h
 *		What Redis answers, and what its errors mean.
 */
#ifndef REDIS_REPLY_H
#define REDIS_REPLY_H

#include "lockfence.h"

#define REDIS_MAX_REPLY		8192	/* bytes of one answer on the wire */
#define REDIS_MAX_ITEMS		8

typedef enum RespType
{
	RESP_NIL,
	RESP_INTEGER,
	RESP_STRING,
	RESP_ARRAY,
	RESP_ERROR
} RespType;

typedef struct RespValue
{
	RespType	type;
	int64		integer;
	FenceString text;			/* string, error; points into the reply */
} RespValue;

/* One answer, copied; of an array the first items, without what is in them. */
typedef struct RespReply
{
	RespValue	value;
	int			count;			/* of all items */
	RespValue	items[REDIS_MAX_ITEMS];
	int			used;			/* bytes of "data" */
	char		data[REDIS_MAX_REPLY];
} RespReply;

typedef enum RedisErrorClass
{
	REDIS_SAYS_NOSCRIPT,		/* nothing was run */
	REDIS_SAYS_LATER,			/* nothing was done; another time, perhaps */
	REDIS_SAYS_READONLY,		/* as before, and this server is not the one */
	REDIS_SAYS_MOVED,
	REDIS_SAYS_ASK,
	REDIS_SAYS_FAULT			/* see redis_error_raise() */
} RedisErrorClass;

#define REDIS_MAX_REASON	200 /* bytes, with the NUL */

extern RedisErrorClass redis_error_class(FenceString error, const char **meaning);
extern void redis_error_raise(const char *server, FenceString error);
extern void redis_text_safe(char *to, int size, FenceString from);
extern bool redis_text_contains(FenceString text, const char *word);

#endif							/* REDIS_REPLY_H */
