// SPDX-License-Identifier: GPL-2.0
/* Linux driver of the longshore NIC: contexts of NVMe/TCP, and buffers that data is placed in. */

#include <linux/memremap.h>
#include <linux/net.h>
#include <linux/tcp.h>

#include "nic.h"
#include "ddp_context.h"

#define LONGSHORE_PROTOCOL_NVME		2
#define LONGSHORE_NVME_CONTROLLER	BIT(0)
#define LONGSHORE_NVME_HDGST		BIT(1)
#define LONGSHORE_NVME_DDGST		BIT(2)
/* When a buffer that found no room on the ring is taken back again. */
#define LONGSHORE_DDP_AGAIN		(HZ / 50)

/* Parameters of NVMe/TCP, as docs/device.md has them. */
struct longshore_nvme_parameters {
	u8 flags;
	u8 alignment;
	u16 tags;
	u32 max_pdu;
};

/* A buffer has more parts than the descriptor has slices. */
struct longshore_add_buffer {
	struct longshore_add_rr_state add;
	struct longshore_continuation more;
};

static_assert(sizeof(struct longshore_add_buffer) == 2 * LONGSHORE_SEND_SLOT);
static_assert(sizeof_field(struct longshore_add_rr_state, slices) +
	      sizeof_field(struct longshore_continuation, slices) >=
	      ULP_DDP_MAX_SGL * sizeof(struct longshore_slice));

/* ---- buffers ---- */

/* The device has let go of a buffer. The lock is held. */
static void longshore_ddp_forget(struct ulp_ddp_ctx *ctx, struct ulp_ddp_io *io)
{
	dma_unmap_sg(&ctx->nic->pdev->dev, io->sgl, io->nents, DMA_FROM_DEVICE);
	ctx->ios[io->command_id] = NULL;
	io->stage = LONGSHORE_DDP_FREE;
}

/* The device has done with what it was told of a tag, or is not there any more. */
void longshore_ddp_left(struct longshore_nic *nic, u32 id, u16 tag)
{
	struct ulp_ddp_io *io = NULL;
	struct ulp_ddp_ctx *ctx;

	rcu_read_lock();
	ctx = xa_load(&nic->ddp, id);
	if (ctx) {
		spin_lock_bh(&ctx->lock);
		if (tag < ctx->tags && ctx->ios[tag] &&
		    ctx->ios[tag]->stage == LONGSHORE_DDP_LEAVES) {
			io = ctx->ios[tag];
			longshore_ddp_forget(ctx, io);
		}
		spin_unlock_bh(&ctx->lock);
	}
	if (io)
		ctx->ops->ddp_teardown_done(io);
	rcu_read_unlock();
}

/* All buffers of a context that the device has no longer. */
static void longshore_ddp_end(struct ulp_ddp_ctx *ctx)
{
	u32 tag;

	for (tag = 0; tag < ctx->tags; tag++) {
		enum longshore_ddp_stage stage = LONGSHORE_DDP_FREE;
		struct ulp_ddp_io *io;

		spin_lock_bh(&ctx->lock);
		ctx->gone = true;
		io = ctx->ios[tag];
		if (io) {
			stage = io->stage;
			longshore_ddp_forget(ctx, io);
		}
		spin_unlock_bh(&ctx->lock);
		if (stage == LONGSHORE_DDP_WAITS || stage == LONGSHORE_DDP_LEAVES)
			ctx->ops->ddp_teardown_done(io);
	}
}

/* The id may be another context's already. */
static void longshore_ddp_free_id(struct longshore_nic *nic, struct ulp_ddp_ctx *ctx)
{
	xa_cmpxchg(&nic->ddp, ctx->id, ctx, NULL, GFP_ATOMIC);
}

/* The device has no contexts any more: it was reset, and @nic is not up. */
void longshore_ddp_reset(struct longshore_nic *nic)
{
	struct ulp_ddp_ctx *ctx;
	unsigned long id;

	cancel_delayed_work(&nic->ddp_task);
	rcu_read_lock();
	xa_for_each(&nic->ddp, id, ctx) {
		longshore_ddp_end(ctx);
		longshore_ddp_free_id(nic, ctx);
		complete(&ctx->ended);
	}
	rcu_read_unlock();
}

static int longshore_ddp_post_del(struct ulp_ddp_ctx *ctx, struct ulp_ddp_io *io)
{
	struct longshore_del_rr_state del = {
		.head.opcode = LONGSHORE_OPCODE_DEL_RR_STATE,
		.context = ctx->id,
		.tag = io->command_id,
	};
	int error = longshore_post(ctx->nic, &del, sizeof(del));

	io->stage = error ? LONGSHORE_DDP_WAITS : LONGSHORE_DDP_LEAVES;
	return error;
}

/* Takes back buffers for which the ring had no room. */
void longshore_ddp_task(struct work_struct *work)
{
	struct longshore_nic *nic = container_of(to_delayed_work(work), struct longshore_nic,
						 ddp_task);
	struct ulp_ddp_ctx *ctx;
	unsigned long id;
	int error = 0;
	u32 tag;

	rcu_read_lock();
	xa_for_each(&nic->ddp, id, ctx) {
		spin_lock_bh(&ctx->lock);
		for (tag = 0; tag < ctx->tags && error != -EBUSY; tag++) {
			struct ulp_ddp_io *io = ctx->ios[tag];

			if (io && io->stage == LONGSHORE_DDP_WAITS)
				error = longshore_ddp_post_del(ctx, io);
		}
		spin_unlock_bh(&ctx->lock);
	}
	rcu_read_unlock();
	if (error == -EBUSY)
		schedule_delayed_work(&nic->ddp_task, LONGSHORE_DDP_AGAIN);
}

static void longshore_ddp_put_buffer(struct longshore_add_buffer *slots, struct ulp_ddp_ctx *ctx,
				     const struct ulp_ddp_io *io)
{
	struct scatterlist *sg;
	int at;

	slots->add.head.opcode = LONGSHORE_OPCODE_ADD_RR_STATE;
	slots->add.context = ctx->id;
	slots->add.tag = io->command_id;
	for_each_sg(io->sgl, sg, io->mapped, at) {
		struct longshore_slice slice = {
			.offset = sg_dma_address(sg),
			.len = sg_dma_len(sg),
			.region = LONGSHORE_REGION,
		};

		if (at < ARRAY_SIZE(slots->add.slices)) {
			slots->add.slices[at] = slice;
			slots->add.head.slices++;
		} else {
			slots->add.head.continuations = 1;
			slots->more.head.opcode = LONGSHORE_OPCODE_CONTINUATION;
			slots->more.slices[slots->more.head.slices++] = slice;
		}
	}
}

/*
 * Whether the pages of a buffer may be those of a packet: they are what the device writes to, and
 * count who has them.
 */
static bool longshore_ddp_is_direct(const struct ulp_ddp_ctx *ctx, const struct ulp_ddp_io *io)
{
	struct scatterlist *sg;
	u32 page;
	int at;

	for_each_sg(io->sgl, sg, io->mapped, at) {
		if (dma_need_sync(&ctx->nic->pdev->dev, sg_dma_address(sg)) ||
		    sg->length != sg_dma_len(sg))
			return false;
		for (page = 0; page < PFN_UP(sg->offset + sg->length); page++) {
			if (is_zone_device_page(sg_page(sg) + page) ||
			    !sendpage_ok(sg_page(sg) + page))
				return false;
		}
	}
	return true;
}

static int longshore_ddp_setup(struct ulp_ddp_ctx *ctx, struct ulp_ddp_io *io)
{
	struct longshore_add_buffer slots = {};
	int error = -ENETDOWN;

	if (io->command_id >= ctx->tags || io->nents > ULP_DDP_MAX_SGL)
		return -EINVAL;
	spin_lock_bh(&ctx->lock);
	if (ctx->gone || ctx->ios[io->command_id])
		goto unlock;
	error = -ENOMEM;
	io->mapped = dma_map_sg(&ctx->nic->pdev->dev, io->sgl, io->nents, DMA_FROM_DEVICE);
	if (!io->mapped)
		goto unlock;
	ctx->ios[io->command_id] = io;
	io->stage = LONGSHORE_DDP_MAPPED;
	io->placed = 0;
	/* A packet of another queue may still wait there that is of the tag's last buffer. */
	io->queue = ctx->queue;
	io->since = ctx->queue ? longshore_index(&ctx->queue->receive, LONGSHORE_RING_TAIL) : 0;
	error = -EOPNOTSUPP;
	if (longshore_ddp_is_direct(ctx, io)) {
		longshore_ddp_put_buffer(&slots, ctx, io);
		error = longshore_post(ctx->nic, &slots, slots.add.head.continuations ?
				       sizeof(slots) : sizeof(slots.add));
	}
	if (error)
		longshore_ddp_forget(ctx, io);
unlock:
	spin_unlock_bh(&ctx->lock);
	return error;
}

static void longshore_ddp_teardown(struct ulp_ddp_ctx *ctx, struct ulp_ddp_io *io)
{
	bool free;

	spin_lock_bh(&ctx->lock);
	/* A reset may have taken it back already. Without a function that is what will. */
	free = io->stage == LONGSHORE_DDP_FREE;
	if (!free && longshore_ddp_post_del(ctx, io) == -EBUSY)
		schedule_delayed_work(&ctx->nic->ddp_task, LONGSHORE_DDP_AGAIN);
	spin_unlock_bh(&ctx->lock);
	if (free)
		ctx->ops->ddp_teardown_done(io);
}

/* An answer that finds no room on the ring is dropped: the device asks again at the next PDU. */
static void longshore_ddp_answer(struct ulp_ddp_ctx *ctx, u32 seq)
{
	struct longshore_resync_response response = {
		.head.opcode = LONGSHORE_OPCODE_RESYNC_RESPONSE,
		.head.flags = LONGSHORE_RESYNC_RESPONSE_CONFIRMED,
		.context = ctx->id,
		.tcpsn = seq,
	};

	spin_lock_bh(&ctx->lock);
	if (!ctx->gone)
		longshore_post(ctx->nic, &response, sizeof(response));
	spin_unlock_bh(&ctx->lock);
}

/* ---- contexts ---- */

static int longshore_ddp_create(struct ulp_ddp_ctx *ctx, const struct sock *sk,
				const struct ulp_ddp_config *config)
{
	struct longshore_create_context create = {
		.head.opcode = LONGSHORE_OPCODE_CREATE_CONTEXT,
		.head.flags = LONGSHORE_CREATE_CONTEXT_RECEIVE,
		.context = ctx->id,
		.tcpsn = READ_ONCE(tcp_sk(sk)->copied_seq),
		.protocols = { LONGSHORE_PROTOCOL_NVME },
	};
	struct longshore_nvme_parameters parameters = {
		.flags = LONGSHORE_NVME_CONTROLLER |
			 (config->hdgst ? LONGSHORE_NVME_HDGST : 0) |
			 (config->ddgst ? LONGSHORE_NVME_DDGST : 0),
		.tags = ctx->tags,
		.max_pdu = config->max_pdu,
	};
	u32 epoch;

	memcpy(create.parameters, &parameters, sizeof(parameters));
	longshore_put_flow(&create, sk, true);
	return longshore_command(ctx->nic, &create, sizeof(create), &epoch);
}

static int longshore_ddp_post_destroy(struct ulp_ddp_ctx *ctx, struct longshore_nic *nic)
{
	struct longshore_destroy_context destroy = {
		.head.opcode = LONGSHORE_OPCODE_DESTROY_CONTEXT,
		.context = ctx->id,
	};
	u32 epoch;

	return longshore_command(nic, &destroy, sizeof(destroy), &epoch);
}

/* Has the device end a context. One that does not answer is reset, which ends it too. */
static void longshore_ddp_destroy(struct ulp_ddp_ctx *ctx, struct longshore_nic *nic)
{
	int error = longshore_ddp_post_destroy(ctx, nic);

	if (!error || error == -EIO) {
		longshore_ddp_end(ctx);
		longshore_ddp_free_id(nic, ctx);
		return;
	}
	if (error != -ENETDOWN)
		longshore_reset(nic, "a context of NVMe/TCP does not end");
	wait_for_completion(&ctx->ended);
}

static struct ulp_ddp_ctx *longshore_ddp_add(struct net_device *netdev, struct sock *sk,
					     const struct ulp_ddp_config *config,
					     const struct ulp_ddp_ulp_ops *ops, void *ulp)
{
	struct longshore_nic *nic = netdev_priv(netdev);
	struct ulp_ddp_ctx *ctx;
	int error = -EOPNOTSUPP;

	/* A program of XDP is to see packets whole. */
	if (!nic->ddp_contexts || nic->xdp)
		return ERR_PTR(error);
	ctx = kzalloc(struct_size(ctx, ios, config->queue_size), GFP_KERNEL);
	if (!ctx)
		return ERR_PTR(-ENOMEM);
	ctx->nic = nic;
	ctx->ops = ops;
	ctx->ulp = ulp;
	ctx->tags = config->queue_size;
	spin_lock_init(&ctx->lock);
	init_completion(&ctx->ended);
	/* Those before are of kernel TLS. */
	error = xa_alloc(&nic->ddp, &ctx->id, ctx,
			 XA_LIMIT(nic->contexts, nic->contexts + nic->ddp_contexts - 1),
			 GFP_KERNEL);
	if (error)
		goto free;
	error = longshore_ddp_create(ctx, sk, config);
	if (!error && !READ_ONCE(ctx->gone) && !nic->xdp)
		return ctx;
	/* What was refused, or not put on the ring, is not there; else a reset is on its way. */
	if (error == -ETIMEDOUT)
		wait_for_completion(&ctx->ended);
	/* A reset has come first: the function that has it is the next one. */
	if (!error)
		error = longshore_ddp_post_destroy(ctx, nic) ?: -ENETDOWN;
	longshore_ddp_free_id(nic, ctx);
free:
	kfree_rcu(ctx, rcu);
	return ERR_PTR(error);
}

static void longshore_ddp_del(struct ulp_ddp_ctx *ctx)
{
	struct net_device *netdev = NULL;

	spin_lock_bh(&ctx->lock);
	/* Until the context is gone, so is the function not. */
	if (!ctx->gone) {
		netdev = ctx->nic->netdev;
		dev_hold(netdev);
	}
	spin_unlock_bh(&ctx->lock);
	if (netdev) {
		longshore_ddp_destroy(ctx, ctx->nic);
		dev_put(netdev);
	} else {
		wait_for_completion(&ctx->ended);
	}
}

static void longshore_ddp_free(struct ulp_ddp_ctx *ctx)
{
	/* A reset at the same time may still call nvme-tcp, and that complete a request. */
	synchronize_rcu();
	kfree(ctx);
}

static const struct ulp_ddp_dev_ops longshore_ddp_ops = {
	.sk_add		= longshore_ddp_add,
	.sk_del		= longshore_ddp_del,
	.sk_free	= longshore_ddp_free,
	.setup		= longshore_ddp_setup,
	.teardown	= longshore_ddp_teardown,
	.resync		= longshore_ddp_answer,
};

/**
 * longshore_ulp_ddp_ops() - what a network device can do for NVMe/TCP
 * @netdev: any
 *
 * Return: its functions, or %NULL if it is not this driver's, or its NIC does not do this.
 */
const struct ulp_ddp_dev_ops *longshore_ulp_ddp_ops(const struct net_device *netdev)
{
	const struct longshore_nic *nic;

	if (!longshore_is_ours(netdev))
		return NULL;
	nic = netdev_priv(netdev);
	return nic->ddp_contexts ? &longshore_ddp_ops : NULL;
}
EXPORT_SYMBOL_GPL(longshore_ulp_ddp_ops);

/* Some of the contexts are for NVMe/TCP, the others for kernel TLS, which has taken all. */
void longshore_ddp_init(struct longshore_nic *nic)
{
	xa_init_flags(&nic->ddp, XA_FLAGS_ALLOC);
	INIT_DELAYED_WORK(&nic->ddp_task, longshore_ddp_task);
	if (!(nic->limits.features & LONGSHORE_FEATURE_CONTEXTS) ||
	    !(nic->limits.protocols & BIT(LONGSHORE_PROTOCOL_NVME)) ||
	    nic->contexts < 2 * LONGSHORE_DDP_CONTEXTS)
		return;
	nic->ddp_contexts = LONGSHORE_DDP_CONTEXTS;
	nic->contexts -= nic->ddp_contexts;
}
