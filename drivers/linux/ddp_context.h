/* SPDX-License-Identifier: GPL-2.0 */
/* Linux driver of the longshore NIC: connections of NVMe/TCP. */
#ifndef LONGSHORE_DDP_CONTEXT_H
#define LONGSHORE_DDP_CONTEXT_H

#include <linux/completion.h>
#include <linux/spinlock.h>

#include "ulp_ddp.h"

/* Where a buffer is. */
enum longshore_ddp_stage {
	LONGSHORE_DDP_FREE,	/* The device does not know it. */
	LONGSHORE_DDP_MAPPED,	/* It has it. */
	LONGSHORE_DDP_WAITS,	/* It is to give it back, but there was no room on the ring. */
	LONGSHORE_DDP_LEAVES,	/* It was told to give it back. */
};

/**
 * struct ulp_ddp_ctx - a connection whose PDUs the device follows
 * @nic: the function, until the device has it no longer
 * @id: the device's context
 * @ops: what nvme-tcp does
 * @ulp: its own
 * @lock: of what follows
 * @gone: the device has the context no longer
 * @ended: the same for who waits for it
 * @queue: where the last packet came that had placed bytes
 * @rcu: for NAPI, which looks it up by its id
 * @tags: how many @ios there are
 * @ios: buffers by their tags
 */
struct ulp_ddp_ctx {
	struct longshore_nic *nic;
	u32 id;
	const struct ulp_ddp_ulp_ops *ops;
	void *ulp;
	spinlock_t lock; /* of what follows */
	bool gone;
	struct completion ended;
	const struct longshore_queue *queue;
	struct rcu_head rcu;
	u32 tags;
	struct ulp_ddp_io *ios[];
};

#endif
