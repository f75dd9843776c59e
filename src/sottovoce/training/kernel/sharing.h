/* Work on groups that have nothing to do with one another, shared out among threads. */

#include <pthread.h>
#include <stddef.h>

#define MOST_THREADS 64

typedef void Work(const void *job, size_t from, size_t to);

typedef struct {
    Work *work;
    const void *job;
    size_t from, to;
} Share;

static void *run(void *argument)
{
    const Share *share = argument;
    share->work(share->job, share->from, share->to);
    return NULL;
}

static void share_out(Work *work, const void *job, size_t groups, size_t threads)
{
    pthread_t others[MOST_THREADS];
    Share shares[MOST_THREADS];
    int started[MOST_THREADS];
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    if (threads > groups) threads = groups;
    if (threads < 1) threads = 1;
    for (size_t t = 1; t < threads; t++) {
        shares[t] = (Share){work, job, groups * t / threads, groups * (t + 1) / threads};
        started[t] = pthread_create(&others[t], NULL, run, &shares[t]) == 0;
    }
    work(job, 0, groups / threads);
    for (size_t t = 1; t < threads; t++) {
        if (started[t]) pthread_join(others[t], NULL);
        else run(&shares[t]);
    }
}
