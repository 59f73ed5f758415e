/* What the system does at night by itself: ends sessions, kills, sleeps, restarts, changes the clock. */
#include <dirent.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "batch/doctor/doctor.h"

#define DAY_US INT64_C(86400000000)

static bool managed(const struct doctor *d)
{
    return doctor_exists(d, "run/systemd/system");
}

void doctor_systemd(struct doctor *d)
{
    char path[128], mend[128], room[2048];
    struct passwd entry, *found = NULL;
    if (!managed(d)) {
        doctor_say(d, DOCTOR_NOTE, "let something start the worker again after a restart",
                   "it does not manage this machine");
        return;
    }
    if (geteuid() == 0 && doctor_live(d)) {
        doctor_say(d, DOCTOR_OK, NULL, "it manages this machine");
        return;
    }
    (void)getpwuid_r(geteuid(), &entry, room, sizeof(room), &found);
    const char *user = found ? found->pw_name : "USER";
    snprintf(path, sizeof(path), "run/user/%u/systemd", (unsigned)geteuid());
    const bool manager = doctor_exists(d, path);
    snprintf(path, sizeof(path), "var/lib/systemd/linger/%.64s", user);
    const bool lingers = doctor_exists(d, path);
    snprintf(mend, sizeof(mend), "loginctl enable-linger %.64s", user);
    doctor_say(d, lingers ? DOCTOR_OK : DOCTOR_WARNING, lingers ? NULL : mend, "%s, %s",
               manager ? "a manager for this user" : "no manager for this user",
               lingers ? "who lingers: services outlive the session"
                       : "who does not linger: what was started may end with the session");
}

/* A unit that runs has a link of its name there. */
static bool unit_runs(const struct doctor *d, const char *unit)
{
    char path[128];
    snprintf(path, sizeof(path), "run/systemd/units/invocation:%.64s", unit);
    return doctor_exists(d, path);
}

void doctor_killers(struct doctor *d)
{
    static const char *const units[] = {"systemd-oomd.service", "earlyoom.service",
                                        "nohang.service"};
    char found[160] = "";
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (unit_runs(d, units[i]))
            n += (size_t)snprintf(found + n, sizeof(found) - n, "%s%s", n ? ", " : "", units[i]);
    }
    if (n > 0)
        doctor_say(d, DOCTOR_WARNING,
                   "run as a system service or in a slice of its own, with "
                   "ManagedOOMPreference=avoid or an exception in the killer's settings",
                   "%s may kill the worker, or the whole session, when memory is short", found);
    else
        doctor_say(d, DOCTOR_OK, NULL, "no service that kills when memory is short");
}

static bool sleep_is_masked(const struct doctor *d)
{
    char path[4300], target[64];
    snprintf(path, sizeof(path), "%.4000s/etc/systemd/system/sleep.target", d->root);
    const ssize_t n = readlink(path, target, sizeof(target) - 1);
    target[n > 0 ? n : 0] = '\0';
    return strcmp(target, "/dev/null") == 0;
}

void doctor_sleep(struct doctor *d)
{
    char states[128];
    doctor_read(d, "sys/power/state", states, sizeof(states));
    const bool can = strstr(states, "mem") || strstr(states, "standby") || strstr(states, "disk");
    if (!can || sleep_is_masked(d)) {
        doctor_say(d, DOCTOR_OK, NULL, "the machine does not go to sleep");
        return;
    }
    const bool kept = managed(d) && doctor_exists(d, "usr/bin/systemd-inhibit");
    doctor_say(d, kept ? DOCTOR_OK : DOCTOR_WARNING,
               kept ? NULL : "switch it off in the desktop's settings for power",
               "the machine can go to sleep (%s)%s", states,
               kept ? "; a worker keeps it awake while there is work" : " in the middle of work");
    if (doctor_exists(d, "proc/acpi/button/lid"))
        doctor_say(d, DOCTOR_NOTE, "leave it open, or HandleLidSwitch=ignore in logind.conf",
                   "it has a lid, and closing that may put it to sleep all the same");
}

void doctor_power(struct doctor *d)
{
    char path[4300], file[400], text[64], level[16];
    bool battery = false;
    snprintf(path, sizeof(path), "%.4000s/sys/class/power_supply", d->root);
    DIR *folder = opendir(path);
    for (struct dirent *f = folder ? readdir(folder) : NULL; f; f = readdir(folder)) {
        snprintf(file, sizeof(file), "sys/class/power_supply/%.200s/status", f->d_name);
        if (strcmp(doctor_read(d, file, text, sizeof(text)), "Discharging") != 0)
            continue;
        snprintf(file, sizeof(file), "sys/class/power_supply/%.200s/capacity", f->d_name);
        battery = true;
        doctor_say(d, DOCTOR_WARNING, "plug it in", "on its battery, which is at %s %%",
                   doctor_read(d, file, level, sizeof(level)));
    }
    if (folder)
        closedir(folder);
    if (!battery)
        doctor_say(d, DOCTOR_OK, NULL, "not on a battery");
}

void doctor_restarts(struct doctor *d)
{
    static const char yes[] = "Unattended-Upgrade::Automatic-Reboot \"true\"";
    char text[16384];
    bool automatic = false;
    doctor_read(d, "etc/apt/apt.conf.d/50unattended-upgrades", text, sizeof(text));
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        line += strspn(line, " \t");
        automatic |= strncmp(line, yes, sizeof(yes) - 1) == 0;
    }
    const bool wanted = doctor_exists(d, "run/reboot-required");
    if (automatic)
        doctor_say(
            d, wanted ? DOCTOR_WARNING : DOCTOR_NOTE,
            "Automatic-Reboot \"false\" in 50unattended-upgrades, or a worker that is started "
            "at boot",
            "unattended-upgrades may restart the machine%s",
            wanted ? ", and an update waits for that" : "");
    else
        doctor_say(d, DOCTOR_OK, NULL, "none is planned%s",
                   wanted ? "; an update waits for one" : "");
}

/* The zone, and whether its clock is put forward or back within a day. */
static void say_zone(struct doctor *d)
{
    struct tm now, later;
    const time_t now_s = (time_t)(clock_wall_us() / 1000000);
    const time_t later_s = (time_t)((clock_wall_us() + DAY_US) / 1000000);
    if (!localtime_r(&now_s, &now) || !localtime_r(&later_s, &later))
        return;
    const long shift_s = later.tm_gmtoff - now.tm_gmtoff;
    doctor_say(d, shift_s ? DOCTOR_NOTE : DOCTOR_OK, NULL, "%s, %+.3g h from UTC%s", now.tm_zone,
               (double)now.tm_gmtoff / 3600,
               shift_s > 0   ? "; put forward within a day: a window over that is shorter"
               : shift_s < 0 ? "; put back within a day: a window over that is longer"
                             : "");
}

void doctor_clock(struct doctor *d)
{
    struct timex t = {0};
    if (!doctor_live(d))
        return;
    say_zone(d);
    if (adjtimex(&t) == TIME_ERROR || (t.status & STA_UNSYNC))
        doctor_say(d, DOCTOR_NOTE, "start systemd-timesyncd or chrony",
                   "nothing keeps the clock right: windows may begin early or late");
}
