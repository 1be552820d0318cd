/*
 * redis_server.h
 *		A Redis server as the current role may use it.
 */
#ifndef REDIS_SERVER_H
#define REDIS_SERVER_H

#include "redis_option.h"

#define REDIS_WRAPPER	"lockfence_redis"

typedef struct RedisServer
{
	Oid			serverid;
	Oid			umid;			/* the role's user mapping, or PUBLIC's */
	const char *name;
	RedisOptions options;
} RedisServer;

extern RedisServer *redis_server_get(const char *name);

#endif							/* REDIS_SERVER_H */
