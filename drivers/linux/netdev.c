// SPDX-License-Identifier: GPL-2.0
/* Linux driver of the longshore NIC: the network device, its rings and interrupts. */

#include <linux/etherdevice.h>
#include <linux/rtnetlink.h>

#include "nic.h"

/* When a filter for which the ring had no room is put there again. */
#define LONGSHORE_FILTER_AGAIN	(HZ / 50)

/* ---- rings ---- */

static u32 longshore_large_entries(const struct longshore_nic *nic)
{
	return min_t(u32, LONGSHORE_LARGE_ENTRIES, nic->limits.large_entries);
}

static u32 longshore_command_entries(const struct longshore_nic *nic)
{
	return min_t(u32, LONGSHORE_COMMANDS, nic->limits.command_entries);
}

static void *longshore_place(struct longshore_ring *ring, void *at, u32 slot, u32 entries)
{
	*ring = (struct longshore_ring){ .at = at, .mask = entries - 1, .slot = slot };
	return at + longshore_ring_bytes(slot, entries);
}

/* Lays out the rings of a queue as docs/device.md has them, and gives where the next one's are. */
static void *longshore_place_queue(struct longshore_nic *nic, struct longshore_queue *queue,
				   void *at)
{
	struct longshore_ring commands;

	at = longshore_place(&queue->send, at, LONGSHORE_SEND_SLOT, nic->send_entries);
	at = longshore_place(&commands, at, LONGSHORE_SEND_SLOT, longshore_command_entries(nic));
	at = longshore_place(&queue->receive, at, LONGSHORE_RECEIVE_SLOT, nic->recv_entries);
	at = longshore_place(&queue->small.ring, at, LONGSHORE_FILL_SLOT, nic->recv_entries);
	return longshore_place(&queue->large.ring, at, LONGSHORE_FILL_SLOT,
			       longshore_large_entries(nic));
}

/* Bytes of a queue's rings. */
static size_t longshore_stride(const struct longshore_nic *nic)
{
	return longshore_ring_bytes(LONGSHORE_SEND_SLOT, nic->send_entries) +
	       longshore_ring_bytes(LONGSHORE_SEND_SLOT, longshore_command_entries(nic)) +
	       longshore_ring_bytes(LONGSHORE_RECEIVE_SLOT, nic->recv_entries) +
	       longshore_ring_bytes(LONGSHORE_FILL_SLOT, nic->recv_entries) +
	       longshore_ring_bytes(LONGSHORE_FILL_SLOT, longshore_large_entries(nic));
}

static int longshore_make_rings(struct longshore_nic *nic)
{
	u32 index;
	void *at;

	nic->block_bytes = nic->queue_count * longshore_stride(nic);
	nic->block = dma_alloc_coherent(&nic->pdev->dev, nic->block_bytes, &nic->block_dma,
					GFP_KERNEL | __GFP_NOWARN);
	if (!nic->block)
		return -ENOMEM;
	at = nic->block;
	for (index = 0; index < nic->queue_count; index++)
		at = longshore_place_queue(nic, &nic->queues[index], at);
	return 0;
}

/* ---- interrupts ---- */

static irqreturn_t longshore_interrupt(int irq, void *data)
{
	struct longshore_queue *queue = data;

	/* The device does not wake this side again before it is asked to. */
	napi_schedule_irqoff(&queue->napi);
	return IRQ_HANDLED;
}

/* There is a NIC again for a function that could not be set up without. */
static void longshore_return(struct longshore_nic *nic)
{
	WRITE_ONCE(nic->returned, true);
	schedule_work(&nic->reset_task);
}

/* What the device tells of itself. A function that is gone is set up anew when there is a NIC. */
irqreturn_t longshore_told(int irq, void *data)
{
	struct longshore_nic *nic = data;
	u32 events = longshore_hw_events(nic);
	bool link = longshore_hw_link(nic);

	if (events & LONGSHORE_EVENT_LINK && link)
		netif_carrier_on(nic->netdev);
	else if (!link)
		netif_carrier_off(nic->netdev);
	if (link && !READ_ONCE(nic->up))
		longshore_return(nic);
	else if (events & LONGSHORE_EVENT_FAILED)
		longshore_reset(nic, "the device says that the function is gone");
	return IRQ_HANDLED;
}

static int longshore_request_irqs(struct longshore_nic *nic)
{
	u32 index;
	int error;

	for (index = 0; index < nic->queue_count; index++) {
		struct longshore_queue *queue = &nic->queues[index];

		snprintf(queue->name, sizeof(queue->name), "%s-%u", nic->netdev->name, index);
		error = request_irq(pci_irq_vector(nic->pdev, index), longshore_interrupt, 0,
				    queue->name, queue);
		if (error) {
			while (index--)
				free_irq(pci_irq_vector(nic->pdev, index), &nic->queues[index]);
			return error;
		}
	}
	return 0;
}

static void longshore_free_irqs(struct longshore_nic *nic)
{
	u32 index;

	for (index = 0; index < nic->queue_count; index++)
		free_irq(pci_irq_vector(nic->pdev, index), &nic->queues[index]);
}

/* ---- which multicast frames are received ---- */

static_assert(sizeof_field(struct longshore_set_filter, addresses) % ETH_ALEN == 0);

/* The groups of the interface if the device takes as many, or all. */
static void longshore_filter_of(struct net_device *netdev, struct longshore_set_filter *slot)
{
	struct netdev_hw_addr *address;
	u32 at = 0;

	*slot = (struct longshore_set_filter){ .head.opcode = LONGSHORE_OPCODE_SET_FILTER };
	netif_addr_lock_bh(netdev);
	if (netdev->flags & (IFF_PROMISC | IFF_ALLMULTI) ||
	    netdev_mc_count(netdev) > sizeof(slot->addresses) / ETH_ALEN) {
		slot->head.flags = LONGSHORE_SET_FILTER_ALL_MULTICAST;
	} else {
		netdev_for_each_mc_addr(address, netdev) {
			/* Any address may be asked for. */
			if (!is_multicast_ether_addr(address->addr))
				continue;
			memcpy(slot->addresses + at * ETH_ALEN, address->addr, ETH_ALEN);
			at++;
		}
		slot->count = at;
	}
	netif_addr_unlock_bh(netdev);
}

/* A function that is down is told when it is up, and one whose ring is full a little later. */
void longshore_filter_task(struct work_struct *work)
{
	struct longshore_nic *nic = container_of(to_delayed_work(work), struct longshore_nic,
						 filter_task);
	struct longshore_set_filter slot;

	longshore_filter_of(nic->netdev, &slot);
	if (longshore_post(nic, &slot, sizeof(slot)) == -EBUSY)
		schedule_delayed_work(&nic->filter_task, LONGSHORE_FILTER_AGAIN);
}

/* The caller holds the lock of the addresses: commands are put on the ring by a task. */
static void longshore_set_rx_mode(struct net_device *netdev)
{
	struct longshore_nic *nic = netdev_priv(netdev);

	if (nic->limits.features & LONGSHORE_FEATURE_FILTER)
		schedule_delayed_work(&nic->filter_task, 0);
}

/* ---- open and close ---- */

static void longshore_close_queues(struct longshore_nic *nic)
{
	u32 index;

	for (index = 0; index < nic->queue_count; index++) {
		longshore_tx_close(&nic->queues[index]);
		longshore_rx_close(&nic->queues[index]);
	}
	/* Commands that the device has not taken may hold keys. */
	memzero_explicit(nic->block, nic->block_bytes);
	dma_free_coherent(&nic->pdev->dev, nic->block_bytes, nic->block, nic->block_dma);
	nic->block = NULL;
}

static bool longshore_merges(const struct longshore_nic *nic, netdev_features_t features)
{
	return features & NETIF_F_LRO && !nic->xdp;
}

/* Parts of the device that are used. */
static u64 longshore_features(const struct longshore_nic *nic)
{
	u64 features = nic->limits.features & (LONGSHORE_FEATURE_RSS | LONGSHORE_FEATURE_FILTER);

	if (nic->contexts)
		features |= LONGSHORE_FEATURE_CONTEXTS;
	if (longshore_merges(nic, nic->netdev->features))
		features |= LONGSHORE_FEATURE_MERGING;
	return features;
}

/* Makes rings and has the device take them. */
static int longshore_open_queues(struct longshore_nic *nic)
{
	struct longshore_setup setup = {
		.queues = nic->queue_count,
		.send_entries = nic->send_entries,
		.command_entries = longshore_command_entries(nic),
		.receive_entries = nic->recv_entries,
		.small_entries = nic->recv_entries,
		.large_entries = longshore_large_entries(nic),
		.small_bytes = longshore_room(nic, LONGSHORE_SMALL_ORDER),
		.large_bytes = longshore_room(nic, LONGSHORE_LARGE_ORDER),
		.stride = longshore_stride(nic),
		.contexts = nic->contexts + nic->ddp_contexts,
		.tags = nic->ddp_contexts ? nic->limits.tags : 0,
		.features = longshore_features(nic),
	};
	u32 index;
	int error;

	error = longshore_make_rings(nic);
	if (error)
		return error;
	for (index = 0; index < nic->queue_count && !error; index++) {
		error = longshore_tx_open(&nic->queues[index]);
		if (!error)
			error = longshore_rx_open(&nic->queues[index]);
	}
	setup.block = nic->block_dma;
	if (!error)
		error = longshore_hw_start(nic, &setup);
	if (error)
		longshore_close_queues(nic);
	return error;
}

/* Commands are posted under the lock of their transmit queue, and only while the device works. */
static void longshore_mark_up(struct longshore_nic *nic, bool up)
{
	struct netdev_queue *commands = longshore_txq(&nic->queues[0]);

	netif_tx_lock_bh(nic->netdev);
	/* The lock above keeps packets out, but not who takes the lock of a queue itself. */
	__netif_tx_lock(commands, smp_processor_id());
	if (up)
		WRITE_ONCE(nic->epoch, nic->epoch + 1);
	/* Packets of XDP are sent under the lock of any queue: who sees this sees the rings too. */
	smp_store_release(&nic->up, up);
	__netif_tx_unlock(commands);
	netif_tx_unlock_bh(nic->netdev);
}

static void longshore_enable(struct longshore_nic *nic)
{
	u32 index;
	int error;

	for (index = 0; index < nic->queue_count; index++) {
		napi_enable(&nic->queues[index].napi);
		/* The first poll gives the device buffers, and tells it that this side sleeps. */
		local_bh_disable();
		napi_schedule(&nic->queues[index].napi);
		local_bh_enable();
	}
	longshore_mark_up(nic, true);
	/* Before the queues: there is room for it on the ring. */
	error = longshore_rss_restore(nic);
	if (error)
		netdev_warn(nic->netdev, "packets are spread by the NIC's own key: %d\n", error);
	/* Until it is told, all multicast frames come. */
	longshore_set_rx_mode(nic->netdev);
	netif_tx_wake_all_queues(nic->netdev);
	if (longshore_hw_link(nic))
		netif_carrier_on(nic->netdev);
}

static int longshore_open(struct net_device *netdev)
{
	struct longshore_nic *nic = netdev_priv(netdev);
	int error;

	error = netif_set_real_num_queues(netdev, nic->queue_count, nic->queue_count);
	if (error)
		return error;
	error = longshore_open_queues(nic);
	if (error)
		return error;
	error = longshore_request_irqs(nic);
	if (error) {
		longshore_hw_reset(nic);
		longshore_close_queues(nic);
		return error;
	}
	/* Before it can go wrong: what is reported of one that is not well is not recovered. */
	longshore_health_is_good(nic);
	longshore_enable(nic);
	return 0;
}

static int longshore_stop(struct net_device *netdev)
{
	struct longshore_nic *nic = netdev_priv(netdev);
	u32 index;

	if (!nic->block)
		return 0;
	netif_carrier_off(netdev);
	longshore_mark_up(nic, false);
	for (index = 0; index < nic->queue_count; index++)
		napi_disable(&nic->queues[index].napi);
	/* A poll that has completed may still be about to wait: it starts the timer, or sleeps. */
	synchronize_net();
	for (index = 0; index < nic->queue_count; index++)
		hrtimer_cancel(&nic->queues[index].pause);
	/* NAPI, which wakes queues, does not run any more. */
	netif_tx_disable(netdev);
	longshore_hw_reset(nic);
	longshore_tls_reset(nic);
	longshore_ddp_reset(nic);
	longshore_free_irqs(nic);
	longshore_close_queues(nic);
	return 0;
}

/* Opens a function that is to be up. It is tried again each second when that fails. */
static int longshore_open_again(struct longshore_nic *nic)
{
	int error = longshore_open(nic->netdev);

	if (error)
		schedule_delayed_work(&nic->open_task, HZ);
	return error;
}

/* Without a NIC a function is opened when one comes, which is told by an interrupt. */
void longshore_open_task(struct work_struct *work)
{
	struct longshore_nic *nic = container_of(to_delayed_work(work), struct longshore_nic,
						 open_task);

	rtnl_lock();
	if (netif_running(nic->netdev) && netif_device_present(nic->netdev) && !nic->block &&
	    longshore_hw_link(nic))
		longshore_open_again(nic);
	rtnl_unlock();
}

/**
 * longshore_recover() - sets the function up anew: what was posted and not done is lost
 * @nic: the function
 *
 * Return: 0, also where there is nothing to set up, or a negative error. Without a NIC that is
 * -ENOLINK, and the function is set up when there is one.
 */
int longshore_recover(struct longshore_nic *nic)
{
	int error = 0;

	rtnl_lock();
	if (netif_running(nic->netdev) && netif_device_present(nic->netdev)) {
		nic->resets++;
		longshore_stop(nic->netdev);
		error = longshore_hw_link(nic) ? longshore_open_again(nic) : -ENOLINK;
		if (error && error != -ENOLINK)
			netdev_err(nic->netdev, "no function after a reset: %d\n", error);
	}
	rtnl_unlock();
	return error;
}

/* The lock is taken for each part: what is reported may be recovered, which takes it too. */
void longshore_reset_task(struct work_struct *work)
{
	struct longshore_nic *nic = container_of(work, struct longshore_nic, reset_task);
	const char *reason = xchg(&nic->reason, NULL);
	bool returned = xchg(&nic->returned, false);

	if (!netif_running(nic->netdev) || !netif_device_present(nic->netdev))
		return;
	if (returned) {
		longshore_recover(nic);
	} else if (reason) {
		WRITE_ONCE(nic->last_reason, reason);
		longshore_health_report(nic, reason);
	}
}

void longshore_reset(struct longshore_nic *nic, const char *reason)
{
	WRITE_ONCE(nic->reason, reason);
	schedule_work(&nic->reset_task);
}

/* Has the device let go of all memory, before somebody resets it or takes its power. */
void longshore_suspend(struct longshore_nic *nic)
{
	rtnl_lock();
	netif_device_detach(nic->netdev);
	if (netif_running(nic->netdev))
		longshore_stop(nic->netdev);
	rtnl_unlock();
}

int longshore_resume(struct longshore_nic *nic)
{
	int error = 0;

	rtnl_lock();
	if (netif_running(nic->netdev) && !nic->block)
		error = longshore_open_again(nic);
	/* Without rings, packets are dropped until the function is set up anew. */
	netif_device_attach(nic->netdev);
	rtnl_unlock();
	return error;
}

/*
 * Runs @change while the function is down, and sets it up again if it was. What @change does is to
 * exchange something for @data: where it can't be set up so, it is as it was before. One that is
 * being reset is set up by who does that.
 */
int longshore_restart(struct longshore_nic *nic, void (*change)(struct longshore_nic *, void *),
		      void *data)
{
	bool running = netif_running(nic->netdev) && netif_device_present(nic->netdev);
	int error;

	if (running)
		longshore_stop(nic->netdev);
	change(nic, data);
	if (!running)
		return 0;
	error = longshore_open(nic->netdev);
	if (error) {
		change(nic, data);
		longshore_open_again(nic);
	}
	return error;
}

/* ---- the network device ---- */

static void longshore_timeout(struct net_device *netdev, unsigned int txq)
{
	struct longshore_nic *nic = netdev_priv(netdev);

	netdev_warn(netdev, "queue %u does not send\n", txq);
	longshore_reset(nic, "a queue does not send");
}

static void longshore_new_mtu(struct longshore_nic *nic, void *data)
{
	unsigned int mtu = nic->netdev->mtu;

	WRITE_ONCE(nic->netdev->mtu, *(int *)data);
	*(int *)data = mtu;
}

static int longshore_change_mtu(struct net_device *netdev, int mtu)
{
	return longshore_restart(netdev_priv(netdev), longshore_new_mtu, &mtu);
}

static void longshore_new_features(struct longshore_nic *nic, void *data)
{
	swap(nic->netdev->features, *(netdev_features_t *)data);
}

/* A program of XDP sees packets as they were on the wire. */
static netdev_features_t longshore_fix_features(struct net_device *netdev,
						netdev_features_t features)
{
	struct longshore_nic *nic = netdev_priv(netdev);

	return nic->xdp ? features & ~NETIF_F_LRO : features;
}

/* Whether the device merges packets is agreed when its function is set up. */
static int longshore_set_features(struct net_device *netdev, netdev_features_t features)
{
	struct longshore_nic *nic = netdev_priv(netdev);

	if (longshore_merges(nic, netdev->features) == longshore_merges(nic, features))
		return 0;
	return longshore_restart(nic, longshore_new_features, &features);
}

static const struct net_device_ops longshore_netdev_ops = {
	.ndo_open		= longshore_open,
	.ndo_stop		= longshore_stop,
	.ndo_start_xmit		= longshore_start_xmit,
	.ndo_features_check	= longshore_features_check,
	.ndo_get_stats64	= longshore_get_stats64,
	.ndo_tx_timeout		= longshore_timeout,
	.ndo_change_mtu		= longshore_change_mtu,
	.ndo_fix_features	= longshore_fix_features,
	.ndo_set_features	= longshore_set_features,
	.ndo_bpf		= longshore_bpf,
	.ndo_xdp_xmit		= longshore_xdp_xmit,
	.ndo_set_rx_mode	= longshore_set_rx_mode,
	.ndo_validate_addr	= eth_validate_addr,
};

bool longshore_is_ours(const struct net_device *netdev)
{
	return netdev->netdev_ops == &longshore_netdev_ops;
}

void longshore_init_netdev(struct longshore_nic *nic)
{
	struct net_device *netdev = nic->netdev;

	netdev->netdev_ops = &longshore_netdev_ops;
	netdev->ethtool_ops = &longshore_ethtool_ops;
#ifdef LONGSHORE_QUEUE_STATS
	netdev->stat_ops = &longshore_stat_ops;
#endif
	netdev->watchdog_timeo = 5 * HZ;
	netdev->min_mtu = ETH_MIN_MTU;
	netdev->max_mtu = nic->limits.mtu;
	netdev->mtu = min_t(u32, ETH_DATA_LEN, nic->limits.mtu);
	eth_hw_addr_set(netdev, nic->limits.mac);
	netdev->hw_features = NETIF_F_SG | NETIF_F_IP_CSUM | NETIF_F_IPV6_CSUM | NETIF_F_TSO |
			      NETIF_F_TSO6 | NETIF_F_TSO_ECN | NETIF_F_RXCSUM | NETIF_F_RXHASH;
	if (nic->limits.features & LONGSHORE_FEATURE_MERGING)
		netdev->hw_features |= NETIF_F_LRO;
	netdev->features = netdev->hw_features | NETIF_F_HIGHDMA;
	/* The kernel puts the tag into the packet. */
	netdev->vlan_features = netdev->features & (NETIF_F_SG | NETIF_F_CSUM_MASK |
						    NETIF_F_ALL_TSO | NETIF_F_HIGHDMA);
#ifdef LONGSHORE_XDP_FEATURES
	netdev->xdp_features = NETDEV_XDP_ACT_BASIC | NETDEV_XDP_ACT_REDIRECT |
			       NETDEV_XDP_ACT_NDO_XMIT;
#endif
}
