/* SPDX-License-Identifier: Apache-2.0 */
#include "collector/agent/courier.h"

#define RS_LOG_TAG "collector"
#include "common/base/log.h"

static enum rs_status connect_link(void *self, const struct rs_link_user *user, void *user_self,
                                   struct rs_link **link_p, struct rs_err *err)
{
    const struct rs_courier *courier = self;
    return rs_grpc_connect(courier->loop, &courier->aggregators->items[courier->to - 1].address,
                           RS_WIRE_METHOD_STREAM, user, user_self, link_p, err);
}

static bool takes(void *self, const struct rs_spool_entry *entry)
{
    const struct rs_courier *courier = self;
    return rs_uplink_owner_of(courier->main, entry->id) == courier->to;
}

static void on_cancel(void *self, const Rankscope__Cancel *cancel)
{
    const struct rs_courier *courier = self;
    courier->on_cancel(courier->cancel_self, cancel);
}

static void begin(struct rs_courier *courier, unsigned to)
{
    const struct rs_uplink_options options = {.spool = courier->spool,
                                              .loop = courier->loop,
                                              .connect = connect_link,
                                              .connect_self = courier,
                                              .node = courier->node,
                                              .takes = takes,
                                              .on_cancel = on_cancel,
                                              .must_keep = true,
                                              .is_delivery = true,
                                              .self = courier};
    struct rs_err err = {0};
    courier->to = to;
    courier->is_closing = false;
    if (rs_uplink_new(&options, &courier->uplink, &err) < 0)
        rs_log_error("%s", err.text);
    else
        rs_log_info("data of captures of %s goes there",
                    courier->aggregators->items[to - 1].address.text);
}

/* Whom entries wait for, unless we are there already, or on the way. */
static unsigned wanted(const struct rs_courier *courier)
{
    const unsigned owner = rs_uplink_waits_for(courier->main, courier->to);
    return owner == courier->aggregators->at + 1 ? 0 : owner;
}

static void close_uplink(struct rs_courier *courier)
{
    if (!courier->is_closing)
        rs_uplink_close(courier->uplink);
    courier->is_closing = true;
}

void rs_courier_turn(struct rs_courier *courier)
{
    const unsigned to = wanted(courier);
    if (!courier->uplink && to)
        begin(courier, to);
    if (!courier->uplink)
        return;
    if (to != courier->to)
        close_uplink(courier);
    rs_uplink_step(courier->uplink, rs_time_monotonic());
    if (courier->is_closing && rs_uplink_is_closed(courier->uplink)) {
        rs_uplink_free(&courier->uplink);
        courier->to = 0;
    }
}

bool rs_courier_end(struct rs_courier *courier)
{
    if (!courier->uplink)
        return true;
    close_uplink(courier);
    rs_uplink_step(courier->uplink, rs_time_monotonic());
    if (!rs_uplink_is_closed(courier->uplink))
        return false;
    rs_uplink_free(&courier->uplink);
    return true;
}
