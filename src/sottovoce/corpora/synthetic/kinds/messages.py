"""Messages, recipients and channels."""

from sottovoce.corpora.synthetic.lexicon import Kind

MESSAGES: dict[str, Kind] = {
    "message": Kind(
        entity="text",
        private=True,
        own=12,
        recurrence=0.15,
        grammar="""
            [i'm|i am] [on my way|running late|here|almost there|at home|stuck in traffic|outside]
            [i'll|i will] be [there|home|back] [in <count> minutes|at <clock>|soon|late|by {hour}]
            [happy birthday|thank you|good night|i love you|see you soon|call me back|good morning]
            [can|could] you [pick up|bring|buy] [milk|bread|the kids|{first_names}|some {plurals}]
            [what time|where|when] [are we meeting|is dinner|do you want to meet|is the {nouns}]
            [dinner|lunch|the party|the meeting|practice] is [at <clock>|on {weekday}|cancelled]
            the {nouns} is [{adjectives}|ready|broken|at {streets} <street_kind>]
            {first_names} [says hi|is sick|can't come|is coming too|needs a ride|had the baby]
            [don't|please don't] forget [the {nouns}|to call {first_names}|{first_names}'s {nouns}]
            i need [a {nouns}|the {adjectives} {nouns}|to talk to you|{small} {plurals}]
            [let's|we should] [meet|eat|talk] [{weekday}|at <clock>|in {cities}|at {first_names}'s]
            [yes|no|okay|sure|maybe|sounds good|never mind] (i'll [call|text] you later)
            did you [see|find|like|lose] the {adjectives} {nouns}
            we're [in {cities}|at {first_names}'s place|leaving at <clock>|out of {plurals}]
            my [new] number is 555-01{digit}{digit}
            [congratulations on|sorry about|good luck with] the {nouns}
            [the code is|the gate code is|my flight is] {digit}{digit}{digit}{digit}
            why did {first_names} [take|sell|paint|hide] the {adjectives} {nouns}
            [ask|tell] {first_names} about the {nouns}
        """,
    ),
    "subject": Kind(
        entity="text",
        private=True,
        own=6,
        recurrence=0.15,
        grammar="""
            [the meeting|dinner|the invoice|vacation|the report|the wedding|rent|homework]
            the {adjectives} {nouns}
            {month} [invoice|report|rent|budget|schedule]
            {first_names}'s [birthday|wedding|party|surgery|homework]
            [trip|flight|move] to {cities}
            [{weekday}|{month}] [meeting|lunch|plans]
            {nouns} and {nouns}
        """,
    ),
    "app": Kind(
        entity="product",
        own=2,
        recurrence=0.6,
        grammar="""
            [parley|chirrup|pigeon|hoot|pingo|yonder|natter|murmur|loop|carrier|tincan|semaphore]
        """,
    ),
    "phone_type": Kind(
        entity="label",
        grammar="[mobile|work|home|cell|office|cell phone|landline|business|second|old|main]",
    ),
    "media": Kind(
        entity="label",
        grammar="""
            [photo|picture|video|link|file|document|voice note|selfie|gif|screenshot|contact card]
        """,
    ),
    "audio_device": Kind(
        entity="product",
        own=2,
        recurrence=0.6,
        grammar="""
            [speaker|speakerphone|bluetooth|headset|headphones|car|earbuds|kitchen speaker|my watch]
            [living room|bedroom|office|bathroom|garage] [speaker|display]
        """,
    ),
}
