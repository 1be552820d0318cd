/*
 * redis_roundtrip.c
 *		What one EVALSHA costs through hiredis alone, for test/bench/redis.sh.
 *
 *	redis_roundtrip PATH|PORT COUNT
 *
 * Prints the microseconds of each call, one per line. The script is of the kind
 * that takes a lease, each time of another key.
 */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double
now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

int
main(int argc, char **argv)
{
	const char *script = "if redis.call('get', KEYS[1]) then return {0} end "
		"redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) return {1}";
	redisContext *context;
	redisReply *reply;
	char		hash[64];

	if (argc != 3)
		return 2;
	context = argv[1][0] == '/' ? redisConnectUnix(argv[1]) :
		redisConnect("127.0.0.1", atoi(argv[1]));
	if (context == NULL || context->err)
		return 1;
	reply = redisCommand(context, "SCRIPT LOAD %s", script);
	if (reply == NULL || reply->type != REDIS_REPLY_STRING)
		return 1;
	snprintf(hash, sizeof(hash), "%s", reply->str);
	freeReplyObject(reply);

	for (int i = 0; i < atoi(argv[2]); i++)
	{
		double		start = now();

		reply = redisCommand(context, "EVALSHA %s 1 alone:%d:%.0f holder 30000",
							 hash, i, start);
		if (reply == NULL || reply->type != REDIS_REPLY_ARRAY)
			return 1;
		freeReplyObject(reply);
		printf("%.1f\n", now() - start);
	}
	redisFree(context);
	return 0;
}
