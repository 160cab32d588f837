"""The frames from which news.py writes sentences of the news, with their sources, tails and openings."""

from __future__ import annotations

__all__ = ["FRAMES", "LEADS", "SOURCES", "TAILS"]

# Who says it: English=French=numbers, in English and in French: "prosecutors say", "le parquet affirme". None is a real body.
SOURCES = {
    "any": "local media=les médias locaux=pp; officials=les autorités=pp; a source close to the case=une source proche du dossier=ss; {O2}={O2}=ss; {O2}={O2}=ss; {O2}={O2}=ss; the authorities=les autorités=pp",
    "crime": "police=la police=ps; police=la police=ps; prosecutors=le parquet=ps; witnesses=des témoins=pp; the prosecutor's office=le parquet=ss; investigators=les enquêteurs=pp; lawyers=les avocats=pp",
    "disaster": "rescue workers=les secouristes=pp; firefighters=les pompiers=pp; the emergency services=les services de secours=pp; the weather service=les services météorologiques=sp; eyewitnesses=des témoins oculaires=pp; a relief organisation=une organisation humanitaire=ss; police=la police=ps",
    "politics": "the opposition=l'opposition=ss; several newspapers=plusieurs journaux=pp; diplomats=des diplomates=pp; the president's office=le cabinet du président=ss; a parliamentary committee=une commission parlementaire=ss; a government source=une source gouvernementale=ss",
    "business": "analysts=les analystes=pp; the company=l'entreprise=ss; economists=les économistes=pp; the central bank=la banque centrale=ss; a consumer group=une association de consommateurs=ss; a business newspaper=un quotidien économique=ss; unions=les syndicats=pp",
    "sport": "the club=le club=ss; the federation=la fédération=ss; the organisers=les organisateurs=pp; {O2}={O2}=ss; the sports newspaper=le quotidien sportif=ss",
    "culture": "the studio=le studio=ss; the magazine=le magazine=ss; the producers=les producteurs=pp; the record label=la maison de disques=ss; critics=les critiques=pp",
    "science": "scientists=les scientifiques=pp; researchers=les chercheurs=pp; the space agency=l'agence spatiale=ss; astronomers=les astronomes=pp; a scientific journal=une revue scientifique=ss",
    "society": "the ministry=le ministère=ss; teachers=les enseignants=pp; a survey=une enquête=ss; the newspaper=le journal=ss; unions=les syndicats=pp; parents=les parents=pp",
    "war": "the army=l'armée=ss; aid agencies=les organisations humanitaires=pp; a military spokesman=un porte-parole de l'armée=ss; human rights groups=les organisations de défense des droits de l'homme=pp; the Ministry of Defence=le ministère de la Défense=ss; rebels=les rebelles=pp",
    "health": "doctors=les médecins=pp; health officials=les autorités sanitaires=pp; the Ministry of Health=le ministère de la Santé=ss; researchers=les chercheurs=pp; experts=les experts=pp; the study=l'étude=ss; the hospital=l'hôpital=ss",
}

LEADS = """meanwhile|pendant ce temps
however|toutefois
in addition|en outre
as a result|par conséquent
for the first time|pour la première fois
in fact|en fait
to everyone's surprise|à la surprise générale
in the meantime|entre-temps
despite everything|malgré tout
unsurprisingly|sans surprise
at the same time|dans le même temps"""

# What follows a frame of a topic, and, after something that happened, of any: English|French|where its English (| is /) has this.
TAILS = {
    "any": """, something that had never happened before|, ce qui n'était encore jamais arrivé
, but it is too early to draw conclusions|, mais il est trop tôt pour en tirer des conclusions
, as had been feared for several weeks|, comme on le craignait depuis plusieurs semaines|(killed/cancelled/closed/fell/cut/strike/outbreak/cases/fled/sacked)
, although the details are still unclear|, même si les détails restent flous
, and further information is expected {F}|, et de plus amples informations sont attendues {F}
, which has sparked strong reactions on social media|, ce qui a suscité de vives réactions sur les réseaux sociaux
, and the authorities have promised to act quickly|, et les autorités ont promis d'agir rapidement|(killed/dead/injured/missing/homeless/attack/fire/crash/collapse/flood/strike/outbreak/cases/escaped/polluted/stole)
, and the news quickly spread around the world|, et la nouvelle a rapidement fait le tour du monde
, for reasons that remain unclear|, pour des raisons encore obscures|(cancelled/closed/postponed/crashed/separated/refused/rejected/collapsed/broke out)
, although {O3} had said the opposite {T}|, alors que {O3} avait affirmé le contraire {T}
, and {O3} has called an emergency meeting|, et {O3} a convoqué une réunion d'urgence|(killed/dead/injured/missing/homeless/attack/fire/crash/collapse/flood/strike/outbreak/cases/escaped/polluted/stole)
, a situation that {O3} described as <unacceptable/worrying/historic/exceptional>|, une situation {que.O3} a jugée <inacceptable/préoccupante/historique/exceptionnelle>
, and {O3} said {he.O3} was <shocked/satisfied/surprised/delighted/saddened>|, et {O3} s'est dit{e.O3} <choqué{e.O3}/satisfait{e.O3}/surpris{e.O3}/ravi{e.O3}/attristé{e.O3}>
, while {O3} called for <calm/patience/unity/vigilance>|, tandis que {O3} a appelé <au calme/à la patience/à l'unité/à la vigilance>
, which, according to {O3}, is not a coincidence|, ce qui, selon {O3}, n'est pas un hasard""",
    "crime": """, and the investigation is continuing|, et l'enquête se poursuit|^(?!the (number/court/jury/judge))
 after a long investigation|, à l'issue d'une longue enquête|\\{P\\}.*(arrested/charged/sentenced/found guilty/extradited)
, while a second suspect is still on the run|, tandis qu'un second suspect est toujours en fuite|\\{P\\}.*(arrested/charged/questioned/accused/suspected)
, but no motive has yet been established|, mais aucun mobile n'a encore été établi|(kill/found/shoot/gunman/body/victim)
, in a case that has shocked the whole country|, dans une affaire qui a choqué tout le pays|(\\{P\\}/gunman/victim/jury)
, and the trial is due to begin {F}|, et le procès doit s'ouvrir {F}|(charged/accused/suspected/arrested)
, thanks to images from a surveillance camera|, grâce aux images d'une caméra de surveillance|(arrested/identified)
, and the victim's family has called for justice|, et la famille de la victime a réclamé justice|(charge/sentenced/killed/accus)""",
    "disaster": """, and the death toll is expected to rise|, et le bilan devrait s'alourdir|(killed/died/missing/collapsed)
, while rescuers continue to search for survivors|, tandis que les secouristes continuent de chercher des survivants|(killed/\\{blow\\} struck/died/missing/collapsed/trapped)
, leaving thousands of homes without power|, privant d'électricité des milliers de foyers|^\\{(blow/disaster)
, and several roads remain closed|, et plusieurs routes restent fermées|(rain/river/wind/blow/disaster/snow)
, forcing schools and businesses to close|, contraignant les écoles et les entreprises à fermer|^\\{(blow/disaster)
, and a state of emergency has been declared|, et l'état d'urgence a été décrété|(blow/disaster)
, but the cause of the accident is not yet known|, mais la cause de l'accident n'est pas encore connue|crash
, the worst disaster in the region for {ten} years|, la pire catastrophe qu'ait connue la région depuis {ten} ans|^\\{blow/crash""",
    "politics": """, despite strong criticism from the opposition|, malgré les vives critiques de l'opposition
, a few weeks before the elections|, à quelques semaines des élections|\\{O\\}.*(promised/debate/defended/refused/apologised/accused/criticised)
, amid growing tensions between the two countries|, sur fond de tensions croissantes entre les deux pays|(ambassador/sanctions/border/summit/talks)
, in an attempt to end the crisis|, pour tenter de mettre fin à la crise|(talks/law/signed/sanctions/government)
, but a majority of voters remain opposed to the plan|, mais une majorité d'électeurs restent opposés au projet|(law/reform/referendum/cut)
, after months of negotiations|, après des mois de négociations|(signed/agreed/approved/talks)
, and protests are planned {F}|, et des manifestations sont prévues {F}|(law/reform/government/crisis/parliament)""",
    "business": """, as demand continues to fall|, alors que la demande continue de baisser|(fell/cut/close/loss/price/shares/sales)
, despite rising costs|, malgré la hausse des coûts|(profit/launch/employs/hopes)
, and analysts expect further job losses|, et les analystes s'attendent à de nouvelles suppressions d'emplois|(cut/close/bankrupt/unemploy)
, because of {crisis}|, en raison {de.crisis}|(rose/fell/risen/cut/close/bankrupt).*$(?<!\\{crisis\\})
, compared with {pct2} a year earlier|, contre {pct2} un an plus tôt|(exports/sales) (rose/fell)
, compared with {rate2} a year earlier|, contre {rate2} un an plus tôt|(unemployment/economy).*\\{rate
, the best result for {n} years|, le meilleur résultat depuis {n} ans|profit
, a decision welcomed by investors|, une décision saluée par les investisseurs|(plans/appointed/raised/bought/intends/cut)""",
    "sport": """ in front of {far} spectators|, devant {far} spectateurs|(beat/won/equalised)
, in one of the most exciting matches of the season|, lors de l'un des matchs les plus passionnants de la saison|(beat/scored/equalised)
, to the delight of the fans|, à la grande joie des supporters|(beat/won/scored/equalised/qualified)
 despite a knee injury|, malgré une blessure au genou|^\\{(player/striker)\\} (won/scored/finished/equal)
, for the {rank} time in a row|, pour la {rank} fois consécutive|(beat/named/out of)
, and will now face {C3}|, et {va} désormais affronter {C3}|^\\{C\\} beat""",
    "culture": """, and fans have been queuing for hours|, et les fans font la queue depuis des heures|^\\{movie\\} (will)/concert
, to the surprise of critics|, à la surprise des critiques|(award/won/earned/nominated)
, after {n} years of silence|, après {n} ans de silence|^\\{artist\\} (gave/will/sold)
, and tickets sold out within minutes|, et les billets se sont vendus en quelques minutes|(concert/festival/orchestra)
, {n} years after the first one|, {n} ans après le premier|^\\{movie.*(released/earned)""",
    "science": """, a discovery that could change our understanding of the universe|, une découverte qui pourrait changer notre compréhension de l'univers|(discovered/found/fossil)
, but further research is needed|, mais des recherches supplémentaires sont nécessaires|study
, after a journey of {n} years|, après un voyage de {n} ans|^\\{probe\\} (will/has)
, using a powerful telescope|, à l'aide d'un puissant télescope|astronomers
, although many questions remain unanswered|, même si de nombreuses questions restent sans réponse|(found/discovered/fossil/study)""",
    "society": """, because of a lack of money|, faute d'argent|(closed/charity/waiting/access/university)
, and the situation is getting worse|, et la situation s'aggrave|(poverty/waiting/access/rents/harassed/failed)
, according to figures published {T}|, selon des chiffres publiés {T}|\\{pct\\}
, but not everyone agrees|, mais tout le monde n'est pas d'accord|(ban/council/allowed/increase)
, especially in rural areas|, en particulier dans les zones rurales|(households/poverty/screen/social)""",
    "war": """, despite the ceasefire|, malgré le cessez-le-feu|(killed/strike/shelled/missile/attacked)
, as fighting continues in the east of the country|, alors que les combats se poursuivent dans l'est du pays|(fled/troops/army/refugee/convoy/rebels)
, and thousands of civilians have fled|, et des milliers de civils ont fui|(army/troops/siege/missile)
, but the army denies any responsibility|, mais l'armée nie toute responsabilité|(strike/missile/convoy/journalist)
, in the deadliest attack since {year}|, lors de l'attaque la plus meurtrière depuis {year}|(killed/bomber/missile)""",
    "health": """, especially among {patient}|, en particulier chez {patient}|^(?!.*\\{patient)(?=.*\\b(risk/spread/effects/deaths)\\b)
, and hospitals are running out of beds|, et les hôpitaux commencent à manquer de lits|(cases/outbreak/spread)
, but the risk remains low for most people|, mais le risque reste faible pour la plupart des gens|(cases/outbreak/risk/spread)
, although the reasons are not yet clear|, même si les raisons n'en sont pas encore claires|(study/habit/likely/risk)
, compared with {pct2} in {year}|, contre {pct2} en {year}|^\\{pct\\} of adults
, and experts call for caution|, et les experts appellent à la prudence|(risk/study/drug/cases/outbreak)""",
}

FRAMES = {
    "crime": """{P} {was} <arrested/questioned/released/identified/found guilty>{l}{t}|{P} {a} été <arrêté{e}/interrogé{e}/libéré{e}/identifié{e}/reconnu{e} coupable>{l}{t}
{P} {has} been charged with {charge}|{P} {a} été inculpé{e} {de.charge}
{P} {was} charged with {charge} and {charge2}{t}|{P} {a} été inculpé{e} {de.charge} et {de.charge2}{t}
{P} {was} sentenced to {n} years in prison for {charge}{t}|{P} {a} été condamné{e} à {n} ans de prison pour {charge}{t}
{P} {was} sentenced{t} to {years} years in prison for {deed}|{P} {a} été condamné{e}{t} à {years} ans de prison pour {deed}
{P} {is} accused of {deed}|{P} {est} accusé{e} {de.deed}
{P} {is} suspected of {deed}{t}|{P} {est} soupçonné{e} {de.deed}{t}
{P} {was} found <dead/unconscious/stabbed to death/strangled>{l}{t}|{P} {a} été retrouvé{e} <mort{e}/inconscient{e}/poignardé{e} à mort/étranglé{e}>{l}{t}
{P} {has} pleaded <guilty/not guilty> to charges of {charge}|{P} {a} plaidé <coupable/non coupable> des accusations {de.charge}
{P} {is} due to appear in court {F}|{P} {doit} comparaître devant le tribunal {F}
{P} {was} killed in a shooting outside {site}{l}{t}|{P} {a} été tué{e} lors d'une fusillade devant {site}{l}{t}
{P} {was} <seriously injured/robbed/beaten up/kidnapped> outside {site}{t}|{P} {a} été <grièvement blessé{e}/dévalisé{e}/roué{e} de coups/enlevé{e}> devant {site}{t}
{P} denied any involvement in the <robbery/murder/attack/fraud>|{P} {a} nié toute implication dans <le braquage/le meurtre/l'attaque/la fraude>
{P} faces up to {years} years in prison if convicted of {charge}|{P} {risque} jusqu'à {years} ans de prison en cas de condamnation pour {charge}
{P} {is} believed to have fled to {C}|{P} {aurait} fui vers {C}
{P} {is} wanted by the {nat} police for {charge}|{P} {est} recherché{e} par la police {f.nat} pour {charge}
{P} {has} been missing since {day}|{P} {est} porté{e} disparu{e} depuis {day}
{P} {was} acquitted of {charge} for lack of evidence|{P} {a} été acquitté{e} des accusations {de.charge}, faute de preuves
{P} {was} released on bail of {sum}{t}|{P} {a} été libéré{e} sous caution de {sum}{t}
thieves <stole/made off with> {cash} worth of jewellery from {site}{l}{t}|des voleurs <ont dérobé/ont emporté> pour {cash} de bijoux dans {site}{l}{t}
police are <looking for witnesses/searching for the gunman/examining the footage/appealing for information> after the attack{l}{t}|la police <recherche des témoins/recherche le tireur/examine les images/lance un appel à témoins> après l'attaque{l}{t}
a gunman opened fire on {K}{l}{t}|un homme armé a ouvert le feu sur {K}{l}{t}
officers seized {ten} kilograms of <cocaine/heroin/cannabis> during a raid{l}{t}|les policiers ont saisi {ten} kilos <de cocaïne/d'héroïne/de cannabis> lors d'une descente{l}{t}
the suspect was carrying <a knife/a gun/a fake passport/a stolen phone> when he was stopped{t}|le suspect portait <un couteau/une arme à feu/un faux passeport/un téléphone volé> lorsqu'il a été interpellé{t}
the jury <reached its verdict/failed to reach a verdict> after {n} days of deliberations|le jury <a rendu son verdict/n'est pas parvenu à rendre un verdict> après {n} jours de délibérations
the judge <rejected the appeal/ordered a new trial/postponed the hearing/dismissed the case>{t}|le juge <a rejeté l'appel/a ordonné un nouveau procès/a reporté l'audience/a classé l'affaire>{t}
the appeal court <upheld/overturned> the conviction{t}|la cour d'appel <a confirmé/a annulé> la condamnation{t}
{K} were evacuated after a bomb threat at {site}{l}{t}|{K} ont été évacué{e} après une alerte à la bombe dans {site}{l}{t}
the victim, who was {age}, died in hospital{t}|la victime, âgée de {age} ans, est morte à l'hôpital{t}
the number of <burglaries/murders/knife attacks/hate crimes> <rose/fell> by {pct} last year{l}|le nombre de <cambriolages/meurtres/attaques au couteau/crimes de haine> a <augmenté/diminué> de {pct} l'année dernière{l}
{P} {was} stopped by customs officers at the airport in {city}{t}|{P} {a} été interpellé{e} par les douaniers à l'aéroport {de.city}{t}
{P} {has} admitted {deed}|{P} {a} reconnu {deed}
{P} {was} extradited to {C}{t} to stand trial for {charge}|{P} {a} été extradé{e} vers {C}{t} pour y être jugé{e} pour {charge}
{P} {was} allegedly paid {cash} for keeping quiet|{P} {aurait} reçu {cash} pour garder le silence
{P} {is} said to have sold the paintings to a {nat} collector|{P} {aurait} vendu les tableaux à un collectionneur {m.nat}
{P} {was} last seen near {site}{l}{t}|{P} {a} été aperçu{e} pour la dernière fois près {de.site}{l}{t}
{P} {was} run over by a <drunk driver/stolen car/tram/police van>{l}{t}|{P} {a} été renversé{e} par <un conducteur ivre/une voiture volée/un tramway/un fourgon de police>{l}{t}
a court in {city} <ordered/refused> the release of {P}{t}|un tribunal {de.city} a <ordonné/refusé> la remise en liberté {de.P}{t}
the trial of {P}, accused of {charge}, opened in {city}{t}|le procès {de.P}, accusé{e} {de.charge}, s'est ouvert {au.city}{t}
a reward of {sum} has been offered for information leading to an arrest|une récompense de {sum} a été offerte pour toute information permettant une arrestation
{n} prisoners escaped from a jail{l}{t}|{n} détenus se sont évadés d'une prison{l}{t}
neighbours heard <gunshots/screams/an explosion/breaking glass> shortly before midnight|des voisins ont entendu <des coups de feu/des cris/une explosion/des bruits de verre brisé> peu avant minuit
detectives found <fingerprints/traces of blood/a suicide note/a hidden camera> in the victim's flat|les enquêteurs ont trouvé <des empreintes digitales/des traces de sang/une lettre d'adieu/une caméra cachée> dans l'appartement de la victime
the body of {P} was discovered in <a forest/a river/a garage/an abandoned house>{l}{t}|le corps {de.P} a été découvert dans <une forêt/une rivière/un garage/une maison abandonnée>{l}{t}
a gang of <pickpockets/smugglers/counterfeiters/car thieves> has been broken up{l}|une bande de <pickpockets/trafiquants/faux-monnayeurs/voleurs de voitures> a été démantelée{l}""",
    "disaster": """{blow} killed {K}{l}{t}|{blow} {a} tué {K}{l}{t}
{blow} struck the <coast/capital/region/island>{t}|{blow} {a} frappé <la côte/la capitale/la région/l'île>{t}
at least {ten} people were killed and {mid} injured in {crash}{l}{t}|au moins {ten} personnes ont été tuées et {mid} autres blessées dans {crash}{l}{t}
{K} died in {crash}{l}{t}|{K} sont mort{e} dans {crash}{l}{t}
{K} were injured, {n} of them seriously, in {crash}{l}{t}|{K} ont été blessé{e}, dont {n} grièvement, dans {crash}{l}{t}
{K} are still missing after {disaster}{l}|{K} sont toujours porté{e} disparu{e} après {disaster}{l}
{K} have been left homeless by {disaster}{l}|{K} se retrouvent sans abri à cause {de.disaster}{l}
{K} had to leave their homes because of {disaster}{t}|{K} ont dû quitter leur domicile à cause {de.disaster}{t}
{K} were trapped <under the rubble/in the tunnel/on the roof/in the station>{l} for several hours|{K} sont resté{e} bloqué{e} <sous les décombres/dans le tunnel/sur le toit/dans la gare>{l} pendant plusieurs heures
{disaster} has caused damage estimated at {money}|{disaster} {a} causé des dégâts estimés à {money}
{disaster} destroyed {num} homes and {site}{l}|{disaster} a détruit {num} habitations et {site}{l}
a fire broke out in {site}{l}{t}|un incendie s'est déclaré dans {site}{l}{t}
{mid} firefighters are battling the flames{l}|{mid} pompiers luttent contre les flammes{l}
the plane, which was carrying {mid} passengers, crashed shortly after take-off{l}{t}|l'avion, qui transportait {mid} passagers, s'est écrasé peu après le décollage{l}{t}
the pilot was forced to make an emergency landing{l}{t}|le pilote a été contraint d'effectuer un atterrissage d'urgence{l}{t}
a lorry collided with a school bus{l}{t}|un camion est entré en collision avec un autocar scolaire{l}{t}
the driver lost control of the vehicle and hit a <tree/wall/lamp post/pedestrian>{t}|le conducteur a perdu le contrôle du véhicule et a percuté un <arbre/mur/lampadaire/piéton>{t}
rescue teams pulled {P} alive from the rubble{t}|les équipes de secours ont sorti {P} vivant{e} des décombres{t}
<heavy rain is/strong winds are/thick fog is/heavy snow is> expected{l} {F}|<de fortes pluies sont attendues/des vents violents sont attendus/un épais brouillard est attendu/d'abondantes chutes de neige sont attendues>{l} {F}
temperatures could <reach {degrees}/fall to minus {n}> degrees{l}{f}|les températures pourraient <atteindre {degrees}/descendre à moins {n}> degrés{l}{f}
the river burst its banks{l}{t}|la rivière est sortie de son lit{l}{t}
rescuers recovered the bodies of {n} climbers{l}{t}|les secouristes ont retrouvé les corps de {n} alpinistes{l}{t}
a boat carrying {K} sank off the coast{t}|un bateau transportant {K} a coulé au large de la côte{t}
{mid} flights were cancelled because of {disaster}{t}|{mid} vols ont été annulés à cause {de.disaster}{t}
an oil spill has polluted {ten} kilometres of beaches{l}|une marée noire a pollué {ten} kilomètres de plages{l}
the government has promised {money} for the victims of {disaster}|le gouvernement a promis {money} aux victimes {de.disaster}
an earthquake measuring {g}.{g2} on the Richter scale struck {C}{t}|un séisme de magnitude {g},{g2} sur l'échelle de Richter a frappé {C}{t}
the fire, which broke out {T}, has already burned {num} hectares of forest{l}|l'incendie, qui s'est déclaré {T}, a déjà ravagé {num} hectares de forêt{l}
{P} {was} struck by lightning while <playing golf/walking the dog/hiking>{l}{t}|{P} {a} été frappé{e} par la foudre alors qu'{il} <jou{ait} au golf/promen{ait} le chien/fais{ait} de la randonnée>{l}{t}
{P} drowned while swimming in <a lake/the sea/a river>{l}{t}|{P} {sest} noyé{e} en nageant dans <un lac/la mer/une rivière>{l}{t}
{K} have received <food/blankets/drinking water/medicines> from volunteers|{K} ont reçu <de la nourriture/des couvertures/de l'eau potable/des médicaments> de la part de bénévoles
trains between {city} and {city2} have been cancelled because of {disaster}|les trains entre {city} et {city2} ont été supprimés à cause {de.disaster}
the black boxes of the plane were found {T}|les boîtes noires de l'avion ont été retrouvées {T}
the helicopter crashed into <a mountain/a house/the sea/a field>{l}, killing all {n} people on board|l'hélicoptère s'est écrasé <contre une montagne/sur une maison/en mer/dans un champ>{l}, tuant les {n} personnes à bord
the weather will be <sunny/cloudy/windy/rainy> {F}, with temperatures of around {degrees} degrees|le temps sera <ensoleillé/nuageux/venteux/pluvieux> {F}, avec des températures avoisinant les {degrees} degrés
winds of up to {wind} kilometres per hour were recorded{l}{t}|des vents soufflant jusqu'à {wind} kilomètres à l'heure ont été enregistrés{l}{t}
it was the <hottest/coldest/driest/wettest> {month} since {year}|il s'agit du mois de {month} le plus <chaud/froid/sec/pluvieux> depuis {year}
the roof of {site} collapsed under the weight of the snow{l}{t}|le toit {de.site} s'est effondré sous le poids de la neige{l}{t}
{K} spent the night in <shelters/their cars/a gymnasium/the station>{l}|{K} ont passé la nuit dans <des abris/leurs voitures/un gymnase/la gare>{l}""",
    "politics": """{O} said{t} that {org} would <cut taxes/raise wages/hire more staff/publish the report>{f}|{O} a déclaré{t} que {org} <baisserait les impôts/augmenterait les salaires/embaucherait du personnel/publierait le rapport>{f}
{O} is expected to visit {C} {F}|{O} devrait se rendre {in.C} {F}
{O} is set to <resign/step down/announce new measures/meet union leaders> {F}|{O} devrait <démissionner/quitter ses fonctions/annoncer de nouvelles mesures/rencontrer les dirigeants syndicaux> {F}
{O} told reporters that {issue} would be a priority|{O} a déclaré aux journalistes {que.issue} {serait.issue} une priorité
{O} has called for a debate on {issue}|{O} a appelé à un débat sur {issue}
{O} defended {his} record on {issue} in a television interview{t}|{O} a défendu son bilan sur {issue} lors d'un entretien télévisé{t}
{O} refused to comment on the <allegations/rumours/leaked documents>{t}|{O} a refusé de commenter <ces allégations/ces rumeurs/les documents divulgués>{t}
{O} apologised for {his} remarks{t}|{O} s'est excusé{e} pour ses propos{t}
{O} won the election with {pct} of the vote|{O} a remporté l'élection avec {pct} des voix
{O} has a lead of {n} points in the polls|{O} a {n} points d'avance dans les sondages
parliament <approved/rejected> the bill by {mid} votes to {ten}{t}|le Parlement a <adopté/rejeté> le projet de loi par {mid} voix contre {ten}{t}
the {nat} government has <imposed/lifted/tightened> sanctions on {C}|le gouvernement {m.nat} a <imposé des/levé les/renforcé les> sanctions contre {C}
voters in {C} go to the polls {F} to elect a new president|les électeurs se rendent aux urnes {in.C} {F} pour élire un nouveau président
turnout was {pct}, the lowest since {year}|le taux de participation a été de {pct}, le plus bas depuis {year}
{K} took to the streets{l}{t} to protest against {crisis}|{K} sont descendu{e} dans la rue{l}{t} pour protester contre {crisis}
police used tear gas to disperse {K}{l}{t}|la police a utilisé des gaz lacrymogènes pour disperser {K}{l}{t}
a {nat} delegation arrived in {city}{t} for a {n}-day visit|une délégation {f.nat} est arrivée {au.city}{t} pour une visite de {n} jours
{C} and {C2} signed an agreement on {issue}{t}|{C} et {C2} ont signé un accord sur {issue}{t}
{C} has recalled its ambassador from {city}|{C} {a} rappelé {son} ambassadeur {de.city}
a {nat} diplomat was summoned to the Foreign Ministry{t}|un diplomate {m.nat} a été convoqué au ministère des Affaires étrangères{t}
the {nat} parliament has voted in favour of <the reform/the budget/early elections/the withdrawal of troops>|le parlement {m.nat} a voté en faveur <de la réforme/du budget/d'élections anticipées/du retrait des troupes>
the ruling party lost its majority{t}|le parti au pouvoir a perdu sa majorité{t}
the two leaders discussed {issue} and {issue2} during a meeting in {city}|les deux dirigeants ont parlé {de.issue} et {de.issue2} lors d'une rencontre {au.city}
a referendum on {issue} will be held {F}|un référendum sur {issue} aura lieu {F}
{pct} of those questioned said they were worried about {issue}|{pct} des personnes interrogées ont déclaré être préoccupées par {issue}
{O} has been criticised for {his} handling of {crisis}|{O} a été critiqué{e} pour sa gestion {de.crisis}
{O}, who has been in office since {year}, will not run for re-election|{O}, en fonction depuis {year}, ne se représentera pas
{O} was elected with a <narrow/large> majority{t}|{O} a été élu{e} à une <courte/large> majorité{t}
{O} has been under pressure to resign since the publication of the report|{O} est poussé{e} à la démission depuis la publication du rapport
{O} promised to create {num} jobs {F}|{O} a promis de créer {num} emplois {F}
{O} accused the opposition of <spreading lies/blocking reforms/ignoring voters>{t}|{O} a accusé l'opposition de <répandre des mensonges/bloquer les réformes/ignorer les électeurs>{t}
{O} held talks with {his} {nat} counterpart in {city}{t}|{O} s'est entretenu{e} avec son homologue {m.nat} {au.city}{t}
{C} is to <leave/join/finance> the organisation {F}|{C} {va} <quitter/rejoindre/financer> l'organisation {F}
the {nat} government wants to reduce the deficit by {money} {F}|le gouvernement {m.nat} veut réduire le déficit de {money} {F}
the prime minister survived a vote of no confidence{t}|le Premier ministre a survécu à une motion de censure{t}
the summit in {city} ended without an agreement on {issue}{t}|le sommet {de.city} s'est achevé sans accord sur {issue}{t}
a new law banning <smoking in cars/plastic bags/fur farming/the sale of weapons> comes into force {F}|une nouvelle loi interdisant <de fumer en voiture/les sacs en plastique/l'élevage d'animaux à fourrure/la vente d'armes> entrera en vigueur {F}
the candidate is <leading/trailing> by {n} points in the latest opinion poll|le candidat est <en tête/distancé> de {n} points dans le dernier sondage
{num} ballot papers had to be recounted in {city}|{num} bulletins de vote ont dû être recomptés {au.city}
{C} has closed its borders to {nat} citizens|{C} {a} fermé {ses} frontières aux citoyens {mp.nat}
the two countries have agreed to restore diplomatic relations, which were broken off in {year}|les deux pays ont convenu de rétablir leurs relations diplomatiques, rompues en {year}""",
    "business": """shares in {firm} <rose/fell/jumped/plunged> by {pct}{t}|l'action {de.firm} a <augmenté/baissé/bondi/plongé> de {pct}{t}
{firm} plans to cut {num} jobs {F}|{firm} prévoit de supprimer {num} emplois {F}
{firm} announced{t} that it would close its factory in {city}|{firm} a annoncé{t} qu'{il} allait fermer son usine {de.city}
{firm} reported a <profit/loss> of {money} for the <first/second/third> quarter|{firm} a annoncé <un bénéfice/une perte> de {money} au <premier/deuxième/troisième> trimestre
{firm} has launched {product}|{firm} a lancé {product}
{firm} will launch {product} {F}|{firm} lancera {product} {F}
{firm} was fined {money}{t} for <misleading customers/breaking competition rules/polluting a river>|{firm} a été condamné{e}{t} à une amende de {money} pour avoir <trompé ses clients/enfreint les règles de la concurrence/pollué une rivière>
{firm} has filed for bankruptcy|{firm} a déposé le bilan
{firm} bought its {nat} rival for {money}{t}|{firm} a racheté son rival {m.nat} pour {money}{t}
{firm} employs {num} people in {C}|{firm} emploie {num} personnes {in.C}
the price of {goods} has <risen/fallen> by {pct} since {month}|le prix {de.goods} a <augmenté/baissé> de {pct} depuis {month}
unemployment in {C} <rose/fell> to {rate} in {month}|le chômage {in.C} est <monté/descendu> à {rate} en {month}
the {nat} economy <grew/shrank> by {rate} last year|l'économie {f.nat} <a progressé/s'est contractée> de {rate} l'année dernière
the central bank <raised/cut/left unchanged> its key interest rate{t}|la banque centrale a <relevé/abaissé/laissé inchangé> son principal taux d'intérêt{t}
inflation is expected to reach {rate} {F}|l'inflation devrait atteindre {rate} {F}
the {nat} stock market closed <higher/lower>{t}|la Bourse {f.nat} a clôturé en <hausse/baisse>{t}
{num} workers at {firm} went on strike{t} over <pay/working conditions/pensions>|{num} salariés {de.firm} se sont mis en grève{t} au sujet <des salaires/des conditions de travail/des retraites>
{firm} recalled {num} vehicles{t} because of a fault in the <brakes/airbags/engine/steering>|{firm} a rappelé {num} véhicules{t} en raison d'un défaut <de freins/d'airbags/de moteur/de direction>
{O} earned {sum} last year, including bonuses|{O} a gagné {sum} l'année dernière, primes comprises
exports to {C} <rose/fell> by {pct} in {month}|les exportations vers {C} ont <augmenté/diminué> de {pct} en {month}
consumers are spending less on <clothes/food/holidays/eating out> because of {crisis}|les consommateurs dépensent moins pour <les vêtements/l'alimentation/les vacances/les sorties au restaurant> en raison {de.crisis}
{firm} is worth about {money}|{firm} vaut environ {money}
{firm} hopes to sell {num} units {F}|{firm} espère vendre {num} unités {F}
{firm} raised {money} from investors{t}|{firm} a levé {money} auprès d'investisseurs{t}
{firm} intends to raise its prices by {pct} {F}|{firm} a l'intention d'augmenter ses prix de {pct} {F}
{firm}, which is based in {city}, has {num} employees worldwide|{firm}, dont le siège se trouve {au.city}, compte {num} salariés dans le monde
{firm} lost {pct} of its customers in {n} months|{firm} a perdu {pct} de ses clients en {n} mois
{firm} appointed {O} as its new chief executive{t}|{firm} a nommé {O} à sa tête{t}
the euro <rose/fell> {rate} against the dollar{t}|l'euro a <gagné/perdu> {rate} face au dollar{t}
house prices in {city} have <doubled/soared/halved> in {n} years|les prix de l'immobilier {au.city} ont <doublé/flambé/baissé de moitié> en {n} ans
car sales <rose/fell> by {pct} in {C} in {month}|les ventes de voitures ont <augmenté/diminué> de {pct} {in.C} en {month}
the deal, worth {money}, is expected to be completed {F}|l'accord, d'un montant de {money}, devrait être finalisé {F}
the {nat} government will invest {money} in <railways/wind farms/schools/artificial intelligence> {F}|le gouvernement {m.nat} investira {money} dans <les chemins de fer/les parcs éoliens/les écoles/l'intelligence artificielle> {F}
farmers blocked roads with their tractors{l}{t} to protest against {crisis}|des agriculteurs ont bloqué des routes avec leurs tracteurs{l}{t} pour protester contre {crisis}
customers complained about <late deliveries/hidden fees/poor service/faulty products>{t}|des clients se sont plaints <de retards de livraison/de frais cachés/de la mauvaise qualité du service/de produits défectueux>{t}
small businesses have been hit hard by {crisis}|les petites entreprises ont été durement touchées par {crisis}
the minimum wage will rise by {rate}{f}|le salaire minimum augmentera de {rate}{f}""",
    "sport": """{C} beat {C2} {g}-{h} in {cup}{t}|{C} {a} battu {C2} {g}-{h} lors {de.cup}{t}
{player} won {his} {rank} title of the season{t}|{player} {a} remporté {son} {rank} titre de la saison{t}
{striker} scored {n} goals in the last {n2} matches|{striker} {a} marqué {n} buts lors des {n2} derniers matchs
{player} {is} out for {n} weeks with <a knee/a shoulder/a thigh/an ankle> injury|{player} {sera} absent{e} pendant {n} semaines en raison d'une blessure <au genou/à l'épaule/à la cuisse/à la cheville>
{striker} has signed a {n}-year contract with the {nat} club|{striker} a signé un contrat de {n} ans avec le club {m.nat}
{player} finished {rank} in {cup}|{player} a terminé {rank} lors {de.cup}
{striker} was sent off after {ten} minutes|{striker} a été expulsé{e} au bout de {ten} minutes
{player} failed a drug test{t}|{player} a subi un contrôle antidopage positif{t}
{player} will miss {cup} because of injury|{player} manquera {cup} en raison d'une blessure
{player} hopes to return to competition {F}|{player} espère reprendre la compétition {F}
the {nat} team qualified for {cup}{t}|l'équipe {f.nat} s'est qualifiée pour {cup}{t}
the club sacked its coach{t} after {n} consecutive defeats|le club a limogé son entraîneur{t} après {n} défaites consécutives
{O} praised {his} players after the <win/draw/defeat>{t}|{O} a félicité ses joueurs après <la victoire/le match nul/la défaite>{t}
{city} will host {cup} {F}|{city} accueillera {cup} {F}
the match ended in a {g}-{g} draw{t}|le match s'est terminé sur le score de {g}-{g}{t}
{C} won {ten} medals, including {n} golds|{C} {a} remporté {ten} médailles, dont {n} en or
she broke the world record by {n} seconds{t}|elle a battu le record du monde de {n} secondes{t}
the referee awarded a penalty in the last minute{t}|l'arbitre a accordé un penalty à la dernière minute{t}
the final was postponed because of <rain/snow/a power cut>{t}|la finale a été reportée en raison <de la pluie/de la neige/d'une panne de courant>{t}
{player} has announced {his} retirement from {sport}|{player} a annoncé qu'{il} arrêtait {sport}
{player}, who turned 25 {T}, dreams of playing in {cup}|{player}, qui a fêté ses 25 ans {T}, rêve de participer {au.cup}
{striker} equalised shortly before half-time{t}|{striker} a égalisé peu avant la mi-temps{t}
<the striker/the goalkeeper/the midfielder/the defender> was named player of the year{t}|<l'attaquant/le gardien de but/le milieu de terrain/le défenseur> a été désigné meilleur joueur de l'année{t}
{striker} moved to {city} for a fee of {cash}|{striker} a été transféré{e} {au.city} pour {cash}
{C} will play {C2} in {cup} {F}|{C} {va} affronter {C2} lors {de.cup} {F}
{C} {was} knocked out of {cup} by {C2}{t}|{C} {a} été éliminé{e} {de.cup} par {C2}{t}
the team are {rank} in the table with {ten} points|l'équipe est {rank} du classement avec {ten} points
{O} took over as coach of the {nat} national team{t}|{O} a pris les rênes de l'équipe nationale {f.nat}{t}
the fans <booed/cheered/applauded> the players at the end of the match{t}|les supporters ont <sifflé/acclamé/applaudi> les joueurs à la fin du match{t}
the stadium in {city} can hold {far} spectators|le stade {de.city} peut accueillir {far} spectateurs
tickets for {cup} will go on sale {F}|les billets pour {cup} seront mis en vente {F}
the {nat} cyclist won the {rank} stage of the race{t}|le cycliste {m.nat} a remporté la {rank} étape de la course{t}
{K} ran the marathon in {city}{t}|{K} ont couru le marathon {de.city}{t}""",
    "culture": """{artist} will star in {movie}, which comes out {F}|{artist} tiendra le rôle principal dans {movie}, qui sort {F}
{artist} has won the award for best <actor/album/screenplay/newcomer>|{artist} a reçu le prix <du meilleur acteur/du meilleur album/du meilleur scénario/de la révélation de l'année>
{artist} announced{t} that the tour had been cancelled|{artist} a annoncé{t} que la tournée était annulée
{artist} gave a concert in {city}{t}|{artist} a donné un concert {au.city}{t}
{artist} sold {num} copies of the album in a week|{artist} a vendu {num} exemplaires de l'album en une semaine
{artist} and {artist2} <got married/separated> {T}|{artist} et {artist2} se sont <mariés/séparés> {T}
{film} tells the story of {P}|{film} raconte l'histoire {de.P}
{movie} has earned {money} at the box office|{movie} a rapporté {money} au box-office
{movie} will be released in cinemas {F}|{movie} sortira en salles {F}
{movie}, which was shot in {C}, has been praised by critics|{movie}, tourné{e} {in.C}, a été salué{e} par la critique
{film} is based on a true story|{film} est inspiré{e} d'une histoire vraie
a painting by a {nat} artist was sold for {cash} at an auction in {city}{t}|un tableau d'un artiste {m.nat} a été vendu {cash} aux enchères {au.city}{t}
the museum attracted {num} visitors last year|le musée a attiré {num} visiteurs l'année dernière
the festival opens in {city} {F}|le festival s'ouvre {au.city} {F}
{K} attended the singer's funeral{l}{t}|{K} ont assisté aux obsèques du chanteur{l}{t}
the book has been translated into {ten} languages|le livre a été traduit en {ten} langues
{artist} is expecting {his} <second/third> child|{artist} attend {son} <deuxième/troisième> enfant
{artist} is said to be writing {his} memoirs|{artist} serait en train d'écrire ses mémoires
{artist}, best known for {his} role in a television series, lives in {city}|{artist}, surtout connu{e} pour son rôle dans une série télévisée, vit {au.city}
{artist} was seen with {artist2} in {city}{t}|{artist} a été aperçu{e} avec {artist2} {au.city}{t}
{film} has been nominated for {n} awards|{film} a été nommé{e} pour {n} prix
{movie} was watched by {num} viewers{t}|{movie} a été suivi{e} par {num} téléspectateurs{t}
{film} received mixed reviews|{film} a reçu un accueil mitigé
{film} was banned in {C} because of its <violent scenes/political content/vulgar language>|{film} a été interdit{e} {in.C} en raison de <ses scènes violentes/son contenu politique/son langage vulgaire>
{movie} is directed by {O}|{movie} est réalisé{e} par {O}
the wedding took place in a castle near {city}{t} in the presence of {K}|le mariage a eu lieu dans un château près {de.city}{t} en présence {de.K}
the orchestra will play in {city} and {city2} {F}|l'orchestre se produira {au.city} et {au.city2} {F}""",
    "science": """{probe} was launched from {city}{t}|{probe} a été lancé{e} depuis {city}{t}
{probe} will reach <the Moon/Mars/Jupiter/the asteroid> {F}|{probe} atteindra <la Lune/Mars/Jupiter/l'astéroïde> {F}
{probe} has sent back the first pictures of the planet's surface|{probe} a envoyé les premières images de la surface de la planète
{probe} is orbiting the Earth at an altitude of {mid} kilometres|{probe} est en orbite autour de la Terre à une altitude de {mid} kilomètres
{n} astronauts returned to Earth{t}|{n} astronautes sont revenus sur Terre{t}
astronomers have discovered <a planet/a black hole/a comet/a galaxy> {num} light years away|des astronomes ont découvert <une planète/un trou noir/une comète/une galaxie> à {num} années-lumière
archaeologists have found <a tomb/a Roman mosaic/gold coins/a temple>{l}|des archéologues ont découvert <une tombe/une mosaïque romaine/des pièces d'or/un temple>{l}
the fossil is believed to be {n} million years old|le fossile aurait {n} millions d'années
{study} suggests that <bees/whales/elephants/frogs> are disappearing faster than expected|{study} laisse penser que les <abeilles/baleines/éléphants/grenouilles> disparaissent plus vite que prévu
{study} shows that the ice is melting faster than expected|{study} montre que la glace fond plus vite que prévu
sea levels could rise by {ten} centimetres by 2100|le niveau de la mer pourrait monter de {ten} centimètres d'ici à 2100
greenhouse gas emissions <rose/fell> by {pct} last year in {C}|les émissions de gaz à effet de serre ont <augmenté/diminué> de {pct} l'année dernière {in.C}
a robot can now <recognise faces/drive a car/perform surgery> thanks to artificial intelligence|un robot peut désormais <reconnaître des visages/conduire une voiture/opérer des patients> grâce à l'intelligence artificielle
hackers stole the personal data of {num} customers{t}|des pirates informatiques ont volé les données personnelles de {num} clients{t}
{pct} of the world's species are threatened with extinction|{pct} des espèces de la planète sont menacées d'extinction
{study} was published {T} in a scientific journal|{study} a été publié{e} {T} dans une revue scientifique
{study}, carried out in {C}, followed {num} volunteers for {n} years|{study}, mené{e} {in.C}, a suivi {num} volontaires pendant {n} ans
{probe} weighs {num} kilograms and cost {money}|{probe} pèse {num} kilos et a coûté {money}
{probe} burned up in the atmosphere{t}|{probe} s'est désintégré{e} dans l'atmosphère{t}
a {nat} astronaut will spend {n} months on board the space station|un astronaute {m.nat} passera {n} mois à bord de la station spatiale
the asteroid will pass {far} kilometres from the Earth {F}|l'astéroïde passera à {far} kilomètres de la Terre {F}
a <total/partial> eclipse will be visible in {C} {F}|une éclipse <totale/partielle> sera visible {in.C} {F}
a rare <shark/turtle/butterfly/orchid> has been seen{l} for the first time since {year}|<un requin rare a été observé/une tortue rare a été observée/un papillon rare a été observé/une orchidée rare a été observée>{l} pour la première fois depuis {year}
the <glacier/coral reef/rainforest> has lost {pct} of its area since {year}|<le glacier/le récif corallien/la forêt tropicale> a perdu {pct} de sa superficie depuis {year}
<wolves/bears/beavers/vultures> have returned to the mountains of {C}|les <loups/ours/castors/vautours> sont de retour dans les montagnes {of.C}
the new <battery/engine/computer/solar panel> uses {pct} less energy|<la nouvelle batterie/le nouveau moteur/le nouvel ordinateur/le nouveau panneau solaire> consomme {pct} d'énergie en moins""",
    "society": """{mid} pupils at a school in {city} were sent home{t}|{mid} élèves d'une école {de.city} ont été renvoyés chez eux{t}
the university will increase tuition fees by {pct} {F}|l'université augmentera les frais de scolarité de {pct} {F}
{K} live below the poverty line in {C}|{K} vivent sous le seuil de pauvreté {in.C}
in {C}, {pct} of households have no access to <clean water/the internet/electricity>|{in.C}, {pct} des ménages n'ont pas accès <à l'eau potable/à internet/à l'électricité>
teachers are threatening to strike {F} over {crisis}|les enseignants menacent de faire grève {F} à cause {de.crisis}
rents have risen by {pct} in {city} since {year}|les loyers ont augmenté de {pct} {au.city} depuis {year}
{P} won {cash} in the lottery{t}|{P} {a} gagné {cash} à la loterie{t}
{P} {was} awarded a medal for saving a drowning child{t}|{P} {a} reçu une médaille pour avoir sauvé un enfant de la noyade{t}
{P} celebrated {his} birthday with {K}{t}|{P} {a} fêté {son} anniversaire avec {K}{t}
{P} {has} set up a charity to help the homeless|{P} {a} créé une association pour venir en aide aux sans-abri
{P} {has} lived in {city} for {n} years|{P} habite{nt} {au.city} depuis {n} ans
the council wants to ban <cars/smoking/plastic bags/mobile phones> from {F}|le conseil municipal veut interdire <les voitures/le tabac/les sacs en plastique/les téléphones portables> dès {F}
the average age of first-time mothers in {C} is now 30|l'âge moyen des femmes à la naissance de leur premier enfant {in.C} est désormais de 30 ans
young people spend an average of {few} hours a day <on social media/in front of a screen>|les jeunes passent en moyenne {few} heures par jour <sur les réseaux sociaux/devant un écran>
{P} {has} written a book about {his} childhood in {C}|{P} {a} écrit un livre sur {son} enfance {in.C}
{P} {was} refused entry to a restaurant in {city}{t}|{P} {sest} vu refuser l'entrée d'un restaurant {au.city}{t}
{P} {was} reunited with {his} family{t} after {n} years|{P} {a} retrouvé {sa} famille{t} après {n} ans
{P} found {sum} in an old wardrobe{t}|{P} {a} trouvé {sum} dans une vieille armoire{t}
{P}, who work{s} in {city}, earn{s} {wage} a month|{P}, qui travaille{nt} {au.city}, gagne{nt} {wage} par mois
{K} are on the waiting list for social housing in {city}|{K} sont inscrit{e} sur la liste d'attente pour un logement social {au.city}
a video of {P} has been viewed {num} times on social media|une vidéo {de.P} a été vue {num} fois sur les réseaux sociaux
a zoo in {city} has welcomed <a baby panda/two tiger cubs/a white rhinoceros>|un zoo {de.city} a accueilli <un bébé panda/deux bébés tigres/un rhinocéros blanc>
{pct} of pupils failed the exam last year|{pct} des élèves ont échoué à l'examen l'année dernière
the school in {city} was closed{t} because of {crisis}|l'école {de.city} a été fermée{t} en raison {de.crisis}
{pct} of women say they have been harassed at work|{pct} des femmes affirment avoir été harcelées au travail
same-sex couples will be allowed to marry in {C} {F}|les couples de même sexe pourront se marier {in.C} {F}
the population of {C} is expected to fall by {pct} by 2050|la population {de.C} devrait diminuer de {pct} d'ici à 2050
{num} asylum seekers arrived in {C} {T}|{num} demandeurs d'asile sont arrivés {in.C} {T}
the <bishop/priest/imam/rabbi> prayed for the victims of {disaster}{t}|<l'évêque/le prêtre/l'imam/le rabbin> a prié pour les victimes {de.disaster}{t}""",
    "war": """{K} were killed in an air strike{l}{t}|{K} ont été tué{e} dans une frappe aérienne{l}{t}
{K} have fled the fighting{l}|{K} ont fui les combats{l}
{C} has sent {num} troops to the border|{C} {a} envoyé {num} soldats à la frontière
the {nat} army <shelled/captured/surrounded/attacked> the town{t}|l'armée {f.nat} a <bombardé/pris/encerclé/attaqué> la ville{t}
the rebels have <agreed to/rejected> a ceasefire|les rebelles ont <accepté/rejeté> un cessez-le-feu
{n} {nat} soldiers were wounded when their vehicle hit a mine{t}|{n} soldats {mp.nat} ont été blessés lorsque leur véhicule a sauté sur une mine{t}
peace talks between {C} and {C2} will resume in {city} {F}|les pourparlers de paix entre {C} et {C2} reprendront {au.city} {F}
a missile hit {site}{l}{t}|un missile a touché {site}{l}{t}
the hostages were freed after {ten} days in captivity|les otages ont été libérés après {ten} jours de captivité
the refugees need <food/water/tents/blankets/medicines>|les réfugiés ont besoin <de nourriture/d'eau/de tentes/de couvertures/de médicaments>
{C} has promised weapons worth {money}|{C} {a} promis des armes d'une valeur de {money}
a suicide bomber blew himself up outside {site}{l}{t}|un kamikaze s'est fait exploser devant {site}{l}{t}
{C} has accused {C2} of <violating its airspace/spying/supporting the rebels/breaking the ceasefire>|{C} {a} accusé {C2} <d'avoir violé {son} espace aérien/d'espionnage/de soutenir les rebelles/d'avoir rompu le cessez-le-feu>
{K} are living in refugee camps in {C}|{K} vivent dans des camps de réfugiés {in.C}
{C} has tested a <nuclear missile/new weapon/drone>{t}|{C} {a} testé <un missile nucléaire/une nouvelle arme/un drone>{t}
a {nat} journalist was <taken hostage/wounded/expelled>{l}{t}|un journaliste {m.nat} a été <pris en otage/blessé/expulsé>{l}{t}
the aid convoy was <attacked/blocked/looted>{l}{t}|le convoi humanitaire a été <attaqué/bloqué/pillé>{l}{t}
the last {nat} troops will leave the country {F}|les dernières troupes {fp.nat} quitteront le pays {F}
{n} bridges and {site} were destroyed by shelling{t}|{n} ponts et {site} ont été détruits par des bombardements{t}
the general was <killed/captured/dismissed>{t}|le général a été <tué/capturé/limogé>{t}
the siege of the city has lasted for {n} months|le siège de la ville dure depuis {n} mois
{C} and {C2} exchanged {ten} prisoners of war{t}|{C} et {C2} ont échangé {ten} prisonniers de guerre{t}""",
    "quotes": """"<we will never forget what happened/we are doing everything we can/nobody is above the law/it could have been much worse/this is only the beginning>," {O} said{t}|« <nous n'oublierons jamais ce qui s'est passé/nous faisons tout ce que nous pouvons/personne n'est au-dessus des lois/cela aurait pu être bien pire/ce n'est que le début> », a déclaré {O}{t}
"<I am innocent/I have nothing to hide/I made a mistake/I did nothing wrong/I am deeply sorry>," {O} told reporters{t}|« <je suis innocent{e}/je n'ai rien à cacher/j'ai commis une erreur/je n'ai rien fait de mal/je suis profondément désolé{e}> », a déclaré {O} aux journalistes{t}
"<our thoughts are with the victims and their families/the situation is under control/we need more time/we must act now>," {O} added|« <nos pensées vont aux victimes et à leurs familles/la situation est maîtrisée/il nous faut plus de temps/nous devons agir maintenant> », a ajouté {O}
{O} said: "<we have learned a lot from this defeat/the players gave everything/we deserved to win/we lost because we were tired>"|{O} a déclaré : « <nous avons beaucoup appris de cette défaite/les joueurs ont tout donné/nous méritions de gagner/nous avons perdu parce que nous étions fatigués> »
"<the numbers speak for themselves/the results are encouraging/we are on the right track/there is still a lot of work to do>," {O} explained{t}|« <les chiffres parlent d'eux-mêmes/les résultats sont encourageants/nous sommes sur la bonne voie/il reste encore beaucoup à faire> », a expliqué {O}{t}
"it is a <disgrace/tragedy/great victory/dangerous decision/step in the right direction>," {O} said{t}|« c'est une <honte/tragédie/grande victoire/décision dangereuse/avancée dans la bonne direction> », a déclaré {O}{t}
asked about {issue}, {O} said that there was no easy solution|interrogé{e.O} sur {issue}, {O} a répondu qu'il n'y avait pas de solution facile
"<I saw smoke coming out of the window/I heard a loud bang/I thought I was going to die/we ran for our lives/everyone was screaming>," said {P}|« <j'ai vu de la fumée sortir par la fenêtre/j'ai entendu une forte détonation/j'ai cru que j'allais mourir/nous avons couru pour sauver notre peau/tout le monde criait> », {a} raconté {P}
"<he was a wonderful colleague/she loved life/he was always smiling/she helped everyone>," {O} recalled|« <c'était un collègue formidable/elle aimait la vie/il était toujours souriant/elle aidait tout le monde> », s'est souvenu{e} {O}
according to {O}, "<there is no reason to panic/the worst is over/it is too early to say/these rumours are false>"|selon {O}, « <il n'y a aucune raison de paniquer/le pire est passé/il est trop tôt pour le dire/ces rumeurs sont fausses> »
"<get vaccinated as soon as possible/stay at home/do not travel/be careful>," {O} urged{t}|« <faites-vous vacciner dès que possible/restez chez vous/ne voyagez pas/soyez prudents> », a exhorté {O}{t}""",
    "headlines": """{K} <killed/injured/arrested/rescued>{l}|{K} <tué{e}/blessé{e}/arrêté{e}/secouru{e}>{l}
what do we know about the attack in {city}?|que sait-on de l'attaque {de.city} ?
why are prices rising in {C}?|pourquoi les prix augmentent-ils {in.C} ?
who will win {cup}?|qui va gagner {cup} ?
{C} is in mourning|{C} {est} en deuil
the search goes on|les recherches se poursuivent
no one was hurt in {crash}{l}|personne n'a été blessé dans {crash}{l}
he had a narrow escape in {crash}|il l'a échappé belle dans {crash}
the two men had known each other since childhood|les deux hommes se connaissaient depuis l'enfance
it is not known how many people were in the building|on ignore combien de personnes se trouvaient dans le bâtiment
the cause of the fire is unknown|la cause de l'incendie est inconnue
nobody has claimed responsibility for the attack in {city}|personne n'a revendiqué l'attaque {de.city}
{P} did not survive|{P} {na} pas survécu
{P} leave{s} behind {n} children|{P} laisse{nt} {n} enfants
{his} lawyers could not be reached for comment, {O} said|ses avocats n'ont pas pu être joints, a indiqué {O}
is it safe to travel to {C}?|peut-on voyager {in.C} en toute sécurité ?
here is what you need to know about {crisis}|voici ce qu'il faut savoir sur {crisis}
{city}: {mid} <dead/injured/arrests> after {disaster}|{city} : {mid} <morts/blessés/arrestations> après {disaster}
fire in {site}{l}: {n} dead|incendie dans {site}{l} : {n} morts
{firm} to cut {num} jobs|{firm} va supprimer {num} emplois
{C} wins gold|{C} décroche{nt} l'or
{player} out of {cup}|{player} forfait pour {cup}
the price of {goods} at its highest level since {year}|le prix {de.goods} au plus haut depuis {year}
five things to know about {film}|cinq choses à savoir sur {film}
what happened in {city}{t}?|que s'est-il passé {au.city}{t} ?
how much does {product} cost?|combien coûte {product} ?
will the European Union lose {C}?|l'Union européenne va-t-elle perdre {C} ?
{O} is no longer a candidate|{O} n'est plus candidat{e}
the shops were empty|les magasins étaient vides
there were no survivors of {crash}|il n'y a eu aucun survivant dans {crash}
she was on her way home when it happened|elle rentrait chez elle lorsque c'est arrivé
it took firefighters {n} hours to put out the blaze|il a fallu {n} heures aux pompiers pour éteindre l'incendie
the suspect remains in custody|le suspect est toujours en détention
{P} {was} lucky to be alive|{P} {a} eu de la chance d'être en vie
the police arrived too late|la police est arrivée trop tard
the verdict will be announced {F}|le verdict sera rendu {F}
the government has fallen|le gouvernement est tombé
the strike is over|la grève est terminée
nobody knows why the bridge collapsed|personne ne sait pourquoi le pont s'est effondré
what caused {crash}{l}?|qu'est-ce qui a provoqué {crash}{l} ?
who is to blame for {crisis}?|qui est responsable {de.crisis} ?
when will {crisis} end?|à quand la fin {de.crisis} ?
{K} still without power{l}|{K} toujours sans électricité{l}
{C} beats {C2} on penalties|{C} l'emporte{nt} sur {C2} aux tirs au but
{pct} of voters support the reform|{pct} des électeurs soutiennent la réforme
{firm} makes a record profit|{firm} réalise un bénéfice record
oil prices fall again|les prix du pétrole baissent à nouveau
two trains collide in {C}: {ten} injured|collision entre deux trains {in.C} : {ten} blessés
his condition is improving|son état s'améliore
they have been married for {ten} years|ils sont mariés depuis {ten} ans
he was only {kid} years old|il n'avait que {kid} ans
she was born in {city} in {year}|elle est née {au.city} en {year}
he grew up in {C} and studied law in {city}|il a grandi {in.C} et a fait des études de droit {au.city}
she moved to {C} in {year} to escape the war|elle s'est installée {in.C} en {year} pour fuir la guerre
the ceremony was broadcast live|la cérémonie a été retransmise en direct
further details will be given {F}|de plus amples détails seront communiqués {F}
the road to {city} is closed to traffic|la route {de.city} est fermée à la circulation""",
}
