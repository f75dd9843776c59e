"""Dates, times, durations and counts, in digits and in words."""

from sottovoce.corpora.synthetic.values import Kind

AMOUNTS: dict[str, Kind] = {
    "date": Kind(
        entity="date",
        private=True,
        own=6,
        recurrence=0.2,
        grammar="""
            [today|tomorrow|tonight|this week|this weekend|next week|this afternoon|this evening]
            {weekday}
            (this|next|on) {weekday} (morning|evening|afternoon|night)
            <calendar>
            [tomorrow|this] [morning|afternoon|evening|night]
            next [month|week|weekend|year]
            [in|within] <count> [days|weeks|months]
            {weekday} the [{day_th}|{ordinal}]
            the [day after tomorrow|first of the month|end of the month|week after next]
            [christmas|new year's eve|easter|thanksgiving|valentine's day|my birthday|mother's day]
            {month}
        """,
    ),
    "past_date": Kind(
        entity="date",
        private=True,
        own=6,
        recurrence=0.2,
        grammar="""
            [yesterday|today|last night|this morning|last week|last month|last weekend]
            (last|on) {weekday} (morning|evening|afternoon|night)
            [yesterday|this] [morning|afternoon|evening]
            <count> [days|weeks|months] ago
            <calendar>
            the [day before yesterday|other day|week before last]
            last [christmas|easter|thanksgiving|summer|winter|year|spring]
            (last) {month}
        """,
    ),
    "birth_date": Kind(
        entity="date",
        private=True,
        own=4,
        recurrence=0.7,
        grammar="""
            {month} [{day_th}|{ordinal}]
            {month} [{ordinal}|{day}] {birth_year}
            the [{day_th}|{ordinal}] of {month}
            {day} {month} {birth_year}
            {digit_high}/{day}/{birth_year}
            {month} {ordinal} nineteen {number_word}
        """,
    ),
    "time": Kind(
        entity="time",
        own=6,
        recurrence=0.35,
        grammar="""
            <clock>
            [noon|lunchtime|dinner time|bedtime|breakfast|midnight|sunset|the usual time]
            [{hour}|{hour_word}] (sharp|ish|tonight|tomorrow)
        """,
    ),
    "duration": Kind(
        entity="duration",
        grammar="""
            <count> [minutes|hours|days|weeks]
            [{number}|{number_word}] [minutes|seconds]
            [an hour|half an hour|a minute|a couple of hours|a few minutes|a week|a month]
            <count> and a half [hours|minutes]
            an hour and [a half|{number_word} minutes]
        """,
    ),
    "count": Kind(
        entity="number",
        grammar="""
            {small_word}
            {small}
            [{number}|{number_word}]
            [a couple of|a few|a dozen|half a dozen|several]
        """,
    ),
}
