"""Titles, artists and genres. Services and cinemas are invented."""

from sottovoce.corpora.synthetic.lexicon import Kind

VIDEO: dict[str, Kind] = {
    "title": Kind(
        entity="title",
        own=15,
        recurrence=0.55,
        grammar="""
            the {adjectives} {nouns}
            {adjectives} {nouns}
            the {nouns}
            {nouns} of [the|] {nouns}
            {first_names} and {first_names}
            {plurals}
            {nouns} and {nouns}
            the {nouns} [who|that] [knew|stole|ate|forgot|loved|saved] {plurals}
            [return to|escape from|goodbye|last train to|midnight in|meet me in] {cities}
            {cities} [nights|vice|story|express|blues|confidential|calling]
            [stop|pause|play|next|skip|tomorrow|the message|unmuted|call me|what's next|nothing]
            {nouns} [{small_word}|{small}|part {small_word}|reloaded|returns|forever]
            [waiting for|looking for|finding|saving|killing|being|searching for] {first_names}
            {adjectives} and {adjectives}
            a {nouns} [in|for|without] [the|a|my] {nouns}
            [how to|don't|never|learning to] [lose|steal|find|trust|marry|feed] a {nouns}
            {first_names} {last_names}
            [my|our|their|her] {adjectives} {nouns}
            {small_word} {plurals} [and a {nouns}|in {cities}|later]
            {weekday} [night|morning] {plurals}
            [where|when|why] the {nouns} [ends|sleeps|begins|sings|was]
            the {nouns}'s {nouns}
            {recent_year}
            {month} {plurals}
            everything [you|we|i] [know|knew|forgot] about {plurals}
        """,
    ),
    "artist": Kind(
        entity="person",
        own=8,
        recurrence=0.5,
        grammar="""
            <full_name>
            {first_names} {letter} {last_names}
            {last_names}
            {first_names} {first_names}
            {first_names} {last_names} {last_names}
        """,
    ),
    "genre": Kind(
        entity="label",
        own=3,
        recurrence=0.5,
        grammar="""
            [comedy|action|horror|drama|romantic comedy|science fiction|thriller|documentary]
            [animated|fantasy|crime|western|musical|superhero|family|mystery|war|anime|sports]
            [true crime|martial arts|film noir|black and white|slasher|spy|silent|coming of age]
            [heist|zombie|courtroom|cooking|nature|stand up|period|dystopian|buddy cop|indie]
        """,
    ),
    "sort": Kind(
        entity="label",
        grammar="""
            [new|latest|best|popular|old|funny|good|scary|sad|short|classic|recent|trending]
            [top rated|award winning|feel good|critically acclaimed|underrated|cheesy|slow]
        """,
    ),
    "format": Kind(
        entity="label",
        grammar="""
            [movie|show|film|series|episode|video|cartoon|documentary|clip|miniseries|sitcom]
            [tv show|short film|music video|reality show|game show|soap opera|live stream|special]
        """,
    ),
    "season": Kind(entity="number", grammar="[{small_word}|{small}|one|1]"),
    "episode": Kind(entity="number", grammar="[{small_word}|{number}|{number_word}]"),
    "special": Kind(
        entity="number",
        grammar="[finale|pilot|latest episode|first episode|{ordinal} episode|christmas special]",
    ),
    "character": Kind(
        entity="title",
        own=4,
        recurrence=0.4,
        grammar="""
            [captain|princess|king|agent|detective|professor|doctor] {nouns}
            [captain|agent|detective|inspector|sheriff] {last_names}
            the {adjectives} {nouns}
            {first_names} the {adjectives}
        """,
    ),
    "channel": Kind(
        entity="organisation",
        own=3,
        recurrence=0.5,
        grammar="""
            [channel|] [{number}|{small_word}|{number_word}]
            {cities} [tv|news|sports]
            the [cooking|weather|history|kids|news|sports|movie|travel|shopping] channel
            [tv|cable] {small_word}
        """,
    ),
    "service": Kind(
        entity="product",
        own=2,
        recurrence=0.75,
        grammar="""
            [streamly|popreel|flickbox|nightowl|binge bay|kinopolis|lumiere|couchside|rerun|vidora]
        """,
    ),
    "device": Kind(
        entity="product",
        own=3,
        recurrence=0.6,
        grammar="""
            [tv|television|tablet|projector|laptop|phone|big screen|console|smart tv]
            [living room|bedroom|kitchen|basement|kids room|upstairs|den|guest room] [tv|screen]
            {first_names}'s [tablet|tv|room|phone|laptop]
        """,
    ),
    "profile": Kind(
        entity="person",
        private=True,
        own=3,
        recurrence=0.8,
        grammar="""
            {first_names}
            [kids|mom|dad|guest|family|grandma|the kids|my wife|my husband]
            {first_names} and {first_names}
        """,
    ),
    "playlist": Kind(
        entity="title",
        private=True,
        own=4,
        recurrence=0.7,
        grammar="""
            [favorites|watch later|kids|date night|weekend|christmas|family night|guilty pleasures]
            {adjectives} {plurals}
            {first_names}'s [list|favorites|picks|movies]
            {weekday} [night|movies]
            [movies|stuff|shows] for [{first_names}|the plane|{weekday}|{cities}]
        """,
    ),
    "year": Kind(
        entity="date",
        grammar="""
            {recent_year}
            the {decade_word}
            nineteen {number_word}
            [the 80s|the 90s|last year|this year|the 2000s|the 70s|two thousand and {small_word}]
        """,
    ),
    "language": Kind(
        entity="label",
        own=2,
        recurrence=0.7,
        grammar="""
            [english|spanish|french|german|hindi|japanese|italian|korean|chinese|portuguese|arabic]
            [polish|swedish|dutch|russian|turkish|tamil|vietnamese|greek|welsh|yoruba|swahili]
        """,
    ),
    "stars": Kind(
        entity="number",
        grammar="""
            [five|four|three|two|5|4|zero] stars|one star
            [three|four|five|two|one|4|3|5] out of [five|5]
            [{small_word}|{small}|one] out of [ten|10]
            [a thumbs up|thumbs down|a thumbs down|two thumbs up|full marks|half a star]
        """,
    ),
    "level": Kind(
        entity="number",
        grammar="""
            [{number}|{number_word}|{small}|{small_word}] (percent)
            [half|maximum|full|minimum|zero|a quarter|a little lower|a bit louder]
        """,
    ),
    "quality": Kind(
        entity="label",
        grammar="[high definition|hd|4k|standard definition|low|1080p|four k|the best quality]",
    ),
    "cinema": Kind(
        entity="organisation",
        own=2,
        recurrence=0.5,
        grammar="""
            the [palace|odyssey|grand|rialto|plaza|majestic|orpheum|bijou] (cinema|theater)
            {streets} <street_kind> [cinema|theater|drive in]
            {cities} [picture house|film center|multiplex]
            the {nouns}
        """,
    ),
    "pin": Kind(
        entity="number",
        private=True,
        own=2,
        recurrence=0.5,
        grammar="""
            {digit}{digit}{digit}{digit}
            {digit_word} {digit_word} {digit_word} {digit_word}
        """,
    ),
}
