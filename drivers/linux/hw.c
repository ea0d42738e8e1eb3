// SPDX-License-Identifier: GPL-2.0
/* Linux driver of the longshore NIC: what the registers do. */

#include <linux/bitfield.h>
#include <linux/etherdevice.h>
#include <linux/io.h>
#include <linux/io-64-nonatomic-lo-hi.h>
#include <linux/log2.h>
#include <linux/sizes.h>

#include "nic.h"

/* Most slots of a ring that a device may have. */
#define LONGSHORE_MOST_ENTRIES	SZ_1M
/* Most interrupts of a PCI function: one for each queue, and one more. */
#define LONGSHORE_MOST_VECTORS	2048

static u32 longshore_status(struct longshore_nic *nic)
{
	return ioread32(nic->regs + LONGSHORE_REG_STATUS);
}

static u64 longshore_identity(struct longshore_nic *nic, u32 word)
{
	return lo_hi_readq(nic->regs + LONGSHORE_REG_IDENTITY(word));
}

/* Most slots of a ring that is one of so many, as the driver takes it: a power of two, or 0. */
static u32 longshore_identity_entries(struct longshore_nic *nic, u32 word)
{
	u64 entries = min_t(u64, longshore_identity(nic, word), LONGSHORE_MOST_ENTRIES);

	return entries ? rounddown_pow_of_two(entries) : 0;
}

/* Whether the driver can do with that. */
static bool longshore_suffices(const struct longshore_limits *limits)
{
	return limits->queues && limits->queues < LONGSHORE_MOST_VECTORS &&
	       limits->mtu >= ETH_MIN_MTU && limits->send_entries >= LONGSHORE_MIN_ENTRIES &&
	       limits->receive_entries >= LONGSHORE_MIN_ENTRIES &&
	       limits->small_entries >= LONGSHORE_MIN_ENTRIES && limits->large_entries &&
	       limits->command_entries;
}

/* Finds out what the device has. It is left as after a reset. */
int longshore_hw_identify(struct longshore_nic *nic)
{
	struct longshore_limits *limits = &nic->limits;

	if (ioread32(nic->regs + LONGSHORE_REG_MAGIC) != LONGSHORE_MAGIC)
		return -ENODEV;
	limits->version = ioread32(nic->regs + LONGSHORE_REG_VERSION);
	if (limits->version != LONGSHORE_VERSION)
		return -EPROTO;
	longshore_hw_reset(nic);
	u64_to_ether_addr(lo_hi_readq(nic->regs + LONGSHORE_REG_MAC), limits->mac);
	limits->mtu = ioread32(nic->regs + LONGSHORE_REG_MTU);
	limits->features = longshore_identity(nic, LONGSHORE_IDENTITY_FEATURES);
	limits->protocols = longshore_identity(nic, LONGSHORE_IDENTITY_PROTOCOLS);
	limits->contexts = min_t(u64, longshore_identity(nic, LONGSHORE_IDENTITY_CONTEXTS),
				 LONGSHORE_CONTEXTS);
	limits->tags = longshore_identity(nic, LONGSHORE_IDENTITY_TAGS);
	if (!limits->contexts)
		limits->features &= ~(u64)LONGSHORE_FEATURE_CONTEXTS;
	limits->queues = min_t(u64, longshore_identity(nic, LONGSHORE_IDENTITY_QUEUES),
			       LONGSHORE_MOST_VECTORS);
	limits->send_entries = longshore_identity_entries(nic, LONGSHORE_IDENTITY_SEND_ENTRIES);
	limits->command_entries = longshore_identity_entries(nic,
							     LONGSHORE_IDENTITY_COMMAND_ENTRIES);
	limits->receive_entries = longshore_identity_entries(nic,
							     LONGSHORE_IDENTITY_RECEIVE_ENTRIES);
	limits->small_entries = longshore_identity_entries(nic, LONGSHORE_IDENTITY_SMALL_ENTRIES);
	limits->large_entries = longshore_identity_entries(nic, LONGSHORE_IDENTITY_LARGE_ENTRIES);
	return longshore_suffices(limits) ? 0 : -ENODEV;
}

static void longshore_set_up(struct longshore_nic *nic, u32 word, u64 value)
{
	lo_hi_writeq(value, nic->regs + LONGSHORE_REG_SET_UP(word));
}

static void longshore_write_setup(struct longshore_nic *nic, const struct longshore_setup *setup)
{
	u32 queue;

	lo_hi_writeq(setup->features, nic->regs + LONGSHORE_REG_FEATURES);
	longshore_set_up(nic, LONGSHORE_SET_UP_QUEUES, setup->queues);
	longshore_set_up(nic, LONGSHORE_SET_UP_SEND_ENTRIES, setup->send_entries);
	longshore_set_up(nic, LONGSHORE_SET_UP_COMMAND_ENTRIES, setup->command_entries);
	longshore_set_up(nic, LONGSHORE_SET_UP_RECEIVE_ENTRIES, setup->receive_entries);
	longshore_set_up(nic, LONGSHORE_SET_UP_SMALL_ENTRIES, setup->small_entries);
	longshore_set_up(nic, LONGSHORE_SET_UP_LARGE_ENTRIES, setup->large_entries);
	longshore_set_up(nic, LONGSHORE_SET_UP_SMALL_BYTES, setup->small_bytes);
	longshore_set_up(nic, LONGSHORE_SET_UP_LARGE_BYTES, setup->large_bytes);
	longshore_set_up(nic, LONGSHORE_SET_UP_CONTEXTS, setup->contexts);
	longshore_set_up(nic, LONGSHORE_SET_UP_TAGS, setup->tags);
	longshore_set_up(nic, LONGSHORE_SET_UP_CLOSING, 0);
	longshore_set_up(nic, LONGSHORE_SET_UP_PACKET_MEMORY, 0);
	longshore_set_up(nic, LONGSHORE_SET_UP_SPLICES, 0);
	longshore_set_up(nic, LONGSHORE_SET_UP_TOE_CONNECTIONS, 0);
	for (queue = 0; queue < setup->queues; queue++)
		lo_hi_writeq(setup->block + queue * setup->stride,
			     nic->regs + LONGSHORE_REG_RINGS(queue));
}

/* Has the device take the rings. */
int longshore_hw_start(struct longshore_nic *nic, const struct longshore_setup *setup)
{
	u32 status;

	longshore_write_setup(nic, setup);
	iowrite32(LONGSHORE_CONTROL_ENABLE, nic->regs + LONGSHORE_REG_CONTROL);
	status = longshore_status(nic);
	if (status == LONGSHORE_STATUS_GONE)
		return -ENODEV;
	if (status & LONGSHORE_STATUS_READY)
		return 0;
	netdev_err(nic->netdev, "the device refused its rings: reason %lu of docs/device.md\n",
		   FIELD_GET(LONGSHORE_STATUS_REFUSAL, status));
	return -EIO;
}

/* The device has let go of all memory when this returns. */
void longshore_hw_reset(struct longshore_nic *nic)
{
	iowrite32(LONGSHORE_CONTROL_RESET, nic->regs + LONGSHORE_REG_CONTROL);
	longshore_status(nic);
}

/* Wakes the device, which sleeps on a send ring. */
void longshore_hw_ring(struct longshore_nic *nic, u16 queue)
{
	iowrite32(1, nic->regs + LONGSHORE_REG_DOORBELL(queue));
}

bool longshore_hw_link(struct longshore_nic *nic)
{
	u32 status = longshore_status(nic);

	return status != LONGSHORE_STATUS_GONE && status & LONGSHORE_STATUS_LINK;
}

/* What has come since this was asked the last time. */
u32 longshore_hw_events(struct longshore_nic *nic)
{
	u32 events = ioread32(nic->regs + LONGSHORE_REG_EVENTS);

	iowrite32(events, nic->regs + LONGSHORE_REG_EVENTS);
	return events;
}
