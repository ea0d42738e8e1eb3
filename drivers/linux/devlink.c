// SPDX-License-Identifier: GPL-2.0
/* Linux driver of the longshore NIC: what devlink shows, and the function's health. */

#include <linux/rtnetlink.h>
#include <net/devlink.h>

#include "nic.h"

/* What devlink keeps for the driver. */
struct longshore_devlink {
	struct longshore_nic *nic;
};

/* A device tells no other version than that of its interface. */
static int longshore_info_get(struct devlink *devlink, struct devlink_info_req *req,
			      struct netlink_ext_ack *extack)
{
	struct longshore_devlink *ours = devlink_priv(devlink);
	char version[16];
#ifdef LONGSHORE_DEVLINK_DRIVER_NAME
	int error = devlink_info_driver_name_put(req, LONGSHORE_NAME);

	if (error)
		return error;
#endif
	snprintf(version, sizeof(version), "%u", ours->nic->limits.version);
	return devlink_info_version_running_put(req, DEVLINK_INFO_VERSION_GENERIC_FW_MGMT_API,
						version);
}

static const struct devlink_ops longshore_devlink_ops = {
	.info_get = longshore_info_get,
};

/* By the user, or by devlink itself as soon as something is reported. */
static int longshore_health_recover(struct devlink_health_reporter *reporter, void *context,
				    struct netlink_ext_ack *extack)
{
	return longshore_recover(devlink_health_reporter_priv(reporter));
}

/* It is reported as what goes wrong by itself. Our caller holds a lock that reports take. */
static int longshore_health_test(struct devlink_health_reporter *reporter,
				 struct netlink_ext_ack *extack)
{
	struct longshore_nic *nic = devlink_health_reporter_priv(reporter);

	if (!netif_running(nic->netdev)) {
		NL_SET_ERR_MSG(extack, "the interface is down");
		return -ENETDOWN;
	}
	longshore_reset(nic, "a test");
	return 0;
}

static void longshore_diagnose_queue(struct longshore_queue *queue, struct devlink_fmsg *fmsg)
{
	devlink_fmsg_obj_nest_start(fmsg);
	devlink_fmsg_u32_pair_put(fmsg, "queue", queue->index);
	devlink_fmsg_u64_pair_put(fmsg, "posted", READ_ONCE(queue->tx_published));
	devlink_fmsg_u64_pair_put(fmsg, "done", longshore_index(&queue->send, LONGSHORE_RING_HEAD));
	devlink_fmsg_u64_pair_put(fmsg, "cleaned up", READ_ONCE(queue->tx_done));
	devlink_fmsg_bool_pair_put(fmsg, "stopped", netif_tx_queue_stopped(longshore_txq(queue)));
	devlink_fmsg_obj_nest_end(fmsg);
}

/* Before Linux 6.7 each part may fail, for want of memory: it is missing then. */
static int longshore_health_diagnose(struct devlink_health_reporter *reporter,
				     struct devlink_fmsg *fmsg, struct netlink_ext_ack *extack)
{
	struct longshore_nic *nic = devlink_health_reporter_priv(reporter);
	const char *reason = READ_ONCE(nic->last_reason);
	u32 index;

	rtnl_lock();
	devlink_fmsg_bool_pair_put(fmsg, "up", nic->up);
	devlink_fmsg_bool_pair_put(fmsg, "link", longshore_hw_link(nic));
	devlink_fmsg_u64_pair_put(fmsg, "resets", nic->resets);
	devlink_fmsg_string_pair_put(fmsg, "last reason", reason ? reason : "none");
	devlink_fmsg_arr_pair_nest_start(fmsg, "send rings");
	for (index = 0; nic->block && index < nic->queue_count; index++)
		longshore_diagnose_queue(&nic->queues[index], fmsg);
	devlink_fmsg_arr_pair_nest_end(fmsg);
	rtnl_unlock();
	return 0;
}

static const struct devlink_health_reporter_ops longshore_reporter_ops = {
	.name = "function",
	.recover = longshore_health_recover,
	.diagnose = longshore_health_diagnose,
	.test = longshore_health_test,
};

/* Nothing keeps devlink from recovering again at once: the driver has always done so. */
static struct devlink_health_reporter *longshore_create_reporter(struct longshore_nic *nic)
{
#ifdef LONGSHORE_HEALTH_DEFAULTS
	return devlink_health_reporter_create(nic->devlink, &longshore_reporter_ops, nic);
#else
	return devlink_health_reporter_create(nic->devlink, &longshore_reporter_ops, 0, nic);
#endif
}

int longshore_devlink_init(struct longshore_nic *nic)
{
	struct devlink_health_reporter *reporter;
	struct longshore_devlink *ours;

	nic->devlink = devlink_alloc(&longshore_devlink_ops, sizeof(*ours), &nic->pdev->dev);
	if (!nic->devlink)
		return -ENOMEM;
	ours = devlink_priv(nic->devlink);
	ours->nic = nic;
	reporter = longshore_create_reporter(nic);
	if (IS_ERR(reporter)) {
		devlink_free(nic->devlink);
		return PTR_ERR(reporter);
	}
	nic->reporter = reporter;
	devlink_register(nic->devlink);
	return 0;
}

/* Nothing may be reported any more. */
void longshore_devlink_exit(struct longshore_nic *nic)
{
	devlink_unregister(nic->devlink);
	devlink_health_reporter_destroy(nic->reporter);
	devlink_free(nic->devlink);
}

/*
 * Reports why the function is to be set up anew, and has devlink do so unless the user has told it
 * not to. Without the RTNL lock, which recovery takes.
 */
void longshore_health_report(struct longshore_nic *nic, const char *reason)
{
	devlink_health_report(nic->reporter, reason, NULL);
}

/* The function is up: it may not have been recovered by devlink. */
void longshore_health_is_good(struct longshore_nic *nic)
{
	devlink_health_reporter_state_update(nic->reporter, DEVLINK_HEALTH_REPORTER_STATE_HEALTHY);
}
